"""The frames that the parent and its workers exchange over their pipes: bytes in, frames out.

A frame is a fixed header and a payload. Every kind uses the same header, so that the decoder
knows nothing about kinds:

    kind     u8
    attempt  u32   JOB, ACK, RETURNED, RAISED, PROGRESS: which attempt of the job
    extra    u32   JOB, FUNCTION, FORGET: the function's number on this worker
                   RETURNED, RAISED: how long the call took, in microseconds (saturating)
    number   u64   the job's number, unique in its pool; MEMORY: resident bytes
    length   u64   of the payload that follows

Each JOB has a *ticket* beside it: one byte in a second pipe, written before the frame. The worker
takes the ticket, then writes ACK, then calls the function; the parent can take tickets back. The
kernel gives every byte to exactly one reader, so a job is either begun or recalled and never
both, without asking a worker that may be busy in C code or stopped. A ticket's byte is the
position of its JOB among all jobs of that worker, modulo 256: that is how the worker knows which
of the frames it holds were recalled.

This module is shared with the worker: what it imports is paid at every respawn.
"""

from struct import Struct

HEADER = Struct("<BIIQQ")

# Parent to worker.
SETUP = 1  # the start-up instructions, marshalled
FUNCTION = 2  # a pickled function, and the number by which jobs will call it
FORGET = 3  # a function that no job will call any more
JOB = 4  # JOB_HEAD, the job's id, then the pickled (args, kwargs)
PATH = 5  # the new sys.path, marshalled
STOP = 6  # leave when the jobs before this are done

# Worker to parent.
HELLO = 16  # the interpreter is up and speaks VERSION (in `number`)
READY = 17  # preload and initializer are done
ACK = 18  # the job is about to be called; sent before its arguments are unpickled
RETURNED = 19  # a pickled value
RAISED = 20  # see asyncpool.raised
PROGRESS = 21  # a marshalled (done, total, message)
MEMORY = 22  # sent before RETURNED or RAISED, if memory is limited

KINDS = frozenset((*range(SETUP, STOP + 1), *range(HELLO, MEMORY + 1)))
VERSION = 1

JOB_HEAD = Struct("<dH")  # the deadline in seconds since the epoch or NaN, and the id's length

MAX_PAYLOAD = 1 << 36
"""Larger payloads do not exist: a header that claims more was not written by us."""

BULK = 1 << 16
"""From here on a payload is gathered apart, in one buffer that grows as its bytes arrive."""

MAX_EXTRA = 0xFFFFFFFF

Frame = tuple[int, int, int, int, "bytes | bytearray"]
"""kind, attempt, extra, number, payload"""


class BadFrame(ValueError):
    """The bytes are not a frame of this protocol; `before` are the frames that came with them."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.before: list[Frame] = []


def encode(
    kind: int, *, attempt: int = 0, extra: int = 0, number: int = 0, payload: bytes = b""
) -> bytes:
    """Return the frame as one piece; large payloads are better written after `header()`."""
    return HEADER.pack(kind, attempt, extra, number, len(payload)) + payload


class Decoder:
    """Cuts a stream of bytes into frames, however it was chopped.

    After `BadFrame` the stream is out of step for good and the decoder must not be fed again.
    """

    __slots__ = ("_bulk", "_head", "_missing", "_tail")

    def __init__(self) -> None:
        self._tail = b""
        self._head: tuple[int, int, int, int] | None = None
        self._bulk = bytearray()
        self._missing = 0

    @property
    def missing(self) -> int:
        """How many bytes of a bulk payload are still to come: larger reads pay then."""
        return self._missing

    def feed(self, data: bytes) -> list[Frame]:
        """Take the next bytes and return the frames that they complete."""
        frames: list[Frame] = []
        if self._missing:
            data = self._gather(data, frames)
        if self._tail:
            data = self._tail + data
        try:
            at = self._cut(data, frames)
        except BadFrame as error:
            error.before = frames  # perhaps the ACK of the job that wrote the nonsense
            raise
        self._tail = data[at:] if at else data
        return frames

    def _cut(self, data: bytes, frames: list[Frame]) -> int:
        """Append the whole frames in `data`; return where the rest begins."""
        at, end, head_size = 0, len(data), HEADER.size
        unpack, append = HEADER.unpack_from, frames.append
        while end - at >= head_size:
            kind, attempt, extra, number, length = unpack(data, at)
            if kind not in KINDS or length > MAX_PAYLOAD:
                raise BadFrame(f"kind {kind}, {length} bytes: not a frame")
            start = at + head_size
            stop = start + length
            if stop > end:
                if length < BULK:
                    break
                self._head = (kind, attempt, extra, number)
                self._bulk = bytearray(data[start:])
                self._missing = stop - end
                return end
            append((kind, attempt, extra, number, data[start:stop]))
            at = stop
        return at

    def _gather(self, data: bytes, frames: list[Frame]) -> bytes:
        """Add to the bulk payload; return what is left of `data` after it."""
        # Growing keeps pace with what really arrives, so that a forged length allocates nothing.
        part = data[: self._missing]
        self._bulk += part
        self._missing -= len(part)
        if not self._missing and self._head is not None:
            frames.append((*self._head, self._bulk))
            self._head, self._bulk = None, bytearray()
        return data[len(part) :]
