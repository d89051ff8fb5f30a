"""KV blocks sent from one engine to another, each one only if its name is not there already (L10.6).

It knows names, and how a block gets from the pool and the runner of one engine into those of another. When that
is worth it, and how long a real network would take, it does not know.

A name stands for a block's tokens and all before them, and for nothing else: both engines run the same weights
with the same block size, or an answer is wrong. The shape of K and V is checked, weights can't be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from course.contract import BlockId, BlockManager, KvBlockHash, KvPool, PrefixCache
from course.engine.runner import Runner
from course.extra_keys import ExtraKeys, parent_of_first_block
from course.many import lookup_prefix, name_blocks, register_full, release_all


class Place(Protocol):
    """An engine's blocks: who counts them, who finds them again, and who holds their K and V."""

    @property
    def pool(self) -> KvPool:
        """The pool: references and names."""

    @property
    def manager(self) -> BlockManager:
        """The manager; only its mode matters here."""

    @property
    def runner(self) -> Runner:
        """The runner: K and V."""


# ---------------------------------------------------------------- question and answer


@dataclass(frozen=True)
class HasBlocks:
    """The question: which of these names do you have? In a prompt's order, front first."""

    names: tuple[int, ...]


@dataclass(frozen=True)
class BlocksThere:
    """The answer to `HasBlocks`: for each name whether there is a block of it, used or cached."""

    names: tuple[int, ...]
    there: tuple[bool, ...]

    @property
    def n_front(self) -> int:
        """How many names from the front are there: what a prompt would find, for a hit ends at the first miss."""
        return (*self.there, False).index(False)

    @property
    def missing(self) -> tuple[int, ...]:
        """The names that are not there, front first."""
        return tuple(name for name, there in zip(self.names, self.there, strict=True) if not there)


def has_blocks(pool: KvPool, question: HasBlocks) -> BlocksThere:
    """Answer for a pool. No reference is taken: a cached block may be gone by the time the answer is read."""
    return BlocksThere(question.names, tuple(pool.find(name) is not None for name in question.names))


# ---------------------------------------------------------------- sending


@dataclass(frozen=True)
class Sent:
    """What became of a prompt's blocks on their way.

    Attributes:
        n_blocks: full blocks that the source holds, from the prompt's front.
        n_had: those of them that the target had already.
        n_sent: those that it got. Where both don't add up to `n_blocks`, the target had no room for the rest.
        n_bytes: K and V that were copied.
    """

    n_blocks: int = 0
    n_had: int = 0
    n_sent: int = 0
    n_bytes: int = 0


def block_names(
    pool: KvPool, tokens: Sequence[int], extra_keys: ExtraKeys = (), block_hash: KvBlockHash | None = None
) -> list[int]:
    """The names of a prompt's full blocks, front first, as a manager over such a pool gives them (L10.4, section 2.1).

    `block_hash` is the manager's own; the one that is bound, unless given. Raises ValueError for a token out of
    range, or what is no extra key.
    """
    named = block_hash or _bound_hash
    return name_blocks(pool, named, tokens, parent_of_first_block(named, extra_keys))


def _bound_hash(parent: int, tokens: Sequence[int]) -> int:
    from course.modules import kv_block_hash  # bound by the time it is needed, if it is needed

    return kv_block_hash(parent, tokens)


def send_prefix(source: Place, target: Place, tokens: Sequence[int], extra_keys: ExtraKeys = ()) -> Sent:
    """Copy a prompt's blocks from one engine to another, as far as the source has them and the target hasn't.

    Afterwards they are cached there, as if they had been computed there. Room is what the target has free or
    cached, so a request that runs loses nothing; without room for all, the first ones are sent.

    Args:
        source: the engine that has the prefix. Its blocks are held while they are read.
        target: the engine that shall have it.
        tokens: the prompt.
        extra_keys: what tells it apart from equal tokens of others (a tenant, an adapter).

    Raises:
        ValueError: the two are one, differ in the shape of a block, or don't both find blocks by name (mode hash);
            or a token out of range.
    """
    return send_blocks(source, target, block_names(source.pool, tokens, extra_keys))


def send_blocks(source: Place, target: Place, names: Sequence[int]) -> Sent:
    """`send_prefix` for whoever has the names of the prompt's full blocks already, front first."""
    _check_places(source, target)
    blocks = lookup_prefix(source.pool, names)
    try:
        return _fill_gaps(source, target, names[: len(blocks)], blocks)
    finally:
        _give_back(source.pool, blocks)


def _fill_gaps(source: Place, target: Place, names: Sequence[int], blocks: Sequence[BlockId]) -> Sent:
    """Send what the target says it lacks, front first. What it has is held meanwhile, or room might be made of it."""
    pool = target.pool
    lacking = set(has_blocks(pool, HasBlocks(tuple(names))).missing)
    table = {name: pool.lookup(name) for name in names if name not in lacking}
    gaps = [pair for pair in zip(names, blocks, strict=True) if pair[0] in lacking][: pool.n_free + pool.n_cached]
    try:
        content = source.runner.read_blocks([block for _, block in gaps])
        fresh = pool.alloc(len(gaps))
        table.update(zip((name for name, _ in gaps), fresh, strict=True))
        target.runner.write_blocks(fresh, content)
        register_full(pool, fresh, [name for name, _ in gaps])
    finally:
        _give_back(pool, [block for name in names if (block := table.get(name)) is not None])
    return Sent(len(names), len(names) - len(lacking), len(gaps), content.nbytes)


def _give_back(pool: KvPool, blocks: Sequence[BlockId]) -> None:
    """The tail first, as a sequence does, so that pressure shortens a cached prefix from its end (L10.4)."""
    release_all(pool, blocks[::-1])


def _check_places(source: Place, target: Place) -> None:
    if source.pool is target.pool:
        raise ValueError("an engine has nothing to send to itself")
    for place in (source, target):
        if place.manager.mode is not PrefixCache.HASH:
            raise ValueError(f"blocks are sent by name, and mode {place.manager.mode.value} gives them none: use hash")
    if (one := _shape(source)) != (other := _shape(target)):
        raise ValueError(f"a block is {one} at the source and {other} at the target: they can't share any")


def _shape(place: Place) -> str:
    layers, _, *rest = place.runner.kv.k.shape
    return f"{[layers, *rest]} in {place.runner.kv.k.dtype}".replace("torch.", "")
