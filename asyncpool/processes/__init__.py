"""The shells around a worker process: how it is started, talked to, watched and explained."""
