"""The lab: prompts through the engine in one call, what came of them, and a student's own modules under it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch

from autograder import implementations, own_work
from autograder.own_work import use_lent, use_own_work
from course import lab, lab_models, modules
from course.charts import ttft_chart, ttft_text
from course.engine import models
from course.engine.models import ModelUnavailable
from course.lab import Served, as_prompt, serve, server, shared_prompts, side_by_side, spelled_tree, token_prompts
from course.lab_charts import draw_against_limit, shown
from course.pictures import draw_tree

SOLUTIONS = Path(__file__).resolve().parent.parent / "solutions"
MODEL = "byte-tiny"


@pytest.fixture(autouse=True)
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The references bound, and nothing else: whatever a test binds is gone afterwards."""
    monkeypatch.setattr(modules, "_offered", [])
    monkeypatch.setattr(lab, "_lent", {})
    monkeypatch.setattr(lab, "_for_options", {})
    module = modules.find("block_manager")
    with modules.bound({}):
        modules._bound.clear()
        modules.bind(implementations.reference(module).names)
        yield modules._bound


def run(prompts: list[Any], mode: str = "none", **options: Any) -> Served:
    return serve(prompts, mode, MODEL, **options)


# ---------------------------------------------------------------- prompts


def test_shared_prompts_share_the_system_prompt_of_224_bytes_and_nothing_much_beyond_it() -> None:
    prompts = shared_prompts(20)
    ids = [models.load_model(MODEL).tokenizer.encode(prompt) for prompt in prompts]
    assert len(set(prompts)) == 20
    shared = next(i for i, column in enumerate(zip(*ids, strict=False)) if len(set(column)) > 1)
    assert 224 < shared < 240 and {len(each) // 16 for each in ids[:8]} == {20}


def test_a_prompt_of_the_byte_model_loads_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "ready_model", lambda name: pytest.fail(f"{name} was loaded"))
    assert as_prompt([{"role": "user", "content": "Hello"}]) == "<|user|>Hello<|end|><|assistant|>"
    assert shared_prompts(2)[1].endswith("<|end|><|assistant|>")


def test_token_prompts_share_their_prefix_and_are_the_same_for_the_same_seed() -> None:
    prompts = token_prompts(3, 32, 8, seed=1)
    assert [len(prompt) for prompt in prompts] == [40] * 3
    assert len({tuple(prompt[:32]) for prompt in prompts}) == 1 and len({tuple(prompt) for prompt in prompts}) == 3
    assert prompts == token_prompts(3, 32, 8, seed=1) != token_prompts(3, 32, 8, seed=2)


# ---------------------------------------------------------------- serving


@pytest.mark.parametrize("mode", ["hash", "radix"])
def test_a_cache_saves_prefill_and_changes_no_answer(mode: str) -> None:
    prompts = token_prompts(4, 64, 20)
    slow, fast = run(prompts), run(prompts, mode)
    assert slow.tokens == fast.tokens and len(set(slow.tokens)) > 1
    assert slow.cached_tokens == (0, 0, 0, 0) and slow.prefill_tokens == (84,) * 4
    assert fast.cached_tokens == (0, 64, 64, 64) and fast.prefill_tokens == (84, 20, 20, 20)
    assert fast.hit_rates == (0, 64 / 168, 128 / 252, 192 / 336) and fast.hit_rate == fast.hit_rates[-1]
    assert all(ttft > 0 for ttft in (*slow.ttft_ms, *fast.ttft_ms))
    assert (fast.prefix_cache, fast.model, fast.n_prompt) == (mode, MODEL, (84,) * 4)


def test_the_flat_models_give_the_same_counts() -> None:
    prompts = token_prompts(5, 48, 30)
    options = {"n_blocks": 16, "at_once": 2, "new_tokens": 12}
    reference = [run(prompts, mode, **options) for mode in ("none", "hash", "radix")]
    modules.bind(own_work.flat_models())
    for ours, theirs in zip(
        reference, [run(prompts, mode, **options) for mode in ("none", "hash", "radix")], strict=True
    ):
        for field in ("tokens", "cached_tokens", "prefill_tokens", "preemptions", "hit_rates", "evictions"):
            assert getattr(ours, field) == getattr(theirs, field), (ours.prefix_cache, field)


def test_a_small_pool_evicts_and_preempts_and_answers_the_same() -> None:
    prompts = token_prompts(6, 32, 50)
    roomy, tight = run(prompts, "radix", new_tokens=20), run(prompts, "radix", n_blocks=13, at_once=2, new_tokens=20)
    assert roomy.evictions == sum(roomy.preemptions) == 0
    assert tight.evictions > 0 and sum(tight.preemptions) > 0
    assert tight.tokens == roomy.tokens
    assert "evictions" in str(tight) and "preemptions" in str(tight) and "evictions" not in str(roomy)


def test_twins_at_once_find_nothing_and_leave_one_copy() -> None:
    twins = token_prompts(1, 0, 70) * 3
    together = run(twins, "radix", at_once=3)
    assert together.cached_tokens == (0, 0, 0) and len(together.hit_rates) == 3
    assert together.manager.cached_blocks == together.pool.n_used == 70 // 16


def test_a_request_comes_when_the_one_before_is_answered() -> None:
    made: list[Any] = []

    class Noticing(modules.BlockManager):  # type: ignore[name-defined,misc]
        def allocate(self, seq: Any, tokens: Any) -> Any:
            made.append((seq, self._running))
            self._running += 1
            return super().allocate(seq, tokens)

        def release(self, seq: Any, computed: Any) -> None:
            self._running -= 1
            super().release(seq, computed)

        _running = 0

    run(token_prompts(4, 0, 20), "hash", manager=Noticing)
    assert [before for _, before in made] == [0, 0, 0, 0]
    made.clear()
    run(token_prompts(4, 0, 20), "hash", manager=Noticing, at_once=2)
    assert made[0][1] == 0 and max(before for _, before in made) == 1 and len(made) == 4


def test_the_engine_computes_on_one_thread_and_leaves_the_setting_as_it_was() -> None:
    before, seen = torch.get_num_threads(), []

    class Noticing(modules.BlockManager):  # type: ignore[name-defined,misc]
        def allocate(self, seq: Any, tokens: Any) -> Any:
            seen.append(torch.get_num_threads())
            return super().allocate(seq, tokens)

    torch.set_num_threads(2)
    try:
        run(token_prompts(1, 0, 20), manager=Noticing)
        assert seen == [1] and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_server_can_be_looked_at_between_steps() -> None:
    made = server("hash", MODEL, n_blocks=20, chunk=64, new_tokens=3)
    first, second = (made.add(prompt) for prompt in token_prompts(2, 32, 16))
    made.step()
    assert len(made.manager.block_table(first)) == 3 and made.pool.n_used == 6
    steps = made.run()
    assert [(step.admitted, step.prefill, step.answered) for step in steps.done] == [(0, 32, 2), (0, 0, 2), (0, 0, 1)]
    assert len(steps) == 3 and made.record(second).prefill_tokens == 48 and made.pool.n_used == 0
    assert "32 positions of prefill" in str(steps) and "tokens answered" in steps._repr_mimebundle_()["text/html"]
    assert made.answer(first) == made.loaded.tokenizer.decode(made.record(first).tokens)


def test_what_cant_be_served_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="at least one prompt"):
        run([])
    with pytest.raises(ValueError, match="the pool has 2"):
        run(token_prompts(1, 0, 50), n_blocks=2)
    with pytest.raises(ValueError, match="lru"):
        run(token_prompts(1, 0, 50), "lru")


# ---------------------------------------------------------------- whose classes


def test_without_any_class_the_sentence_says_what_to_do(names: dict[str, Any]) -> None:
    names.clear()
    with pytest.raises(RuntimeError, match="there is no KvPool for the engine here: run the notebook's first cell"):
        run(token_prompts(1, 0, 20))


def test_what_is_lent_serves_where_nothing_is_bound_and_only_there(names: dict[str, Any]) -> None:
    reference = names["BlockManager"]
    del names["BlockManager"]
    own_work.lend_to_the_engine()
    lent = run(token_prompts(1, 0, 20)).manager
    assert not isinstance(lent, reference)
    with pytest.raises(ImportError):
        _ = modules.BlockManager
    modules.bind({"BlockManager": reference})
    assert isinstance(run(token_prompts(1, 0, 20)).manager, reference)


def test_a_manager_that_is_given_is_the_one_that_serves() -> None:
    class Mine(modules.BlockManager):  # type: ignore[name-defined,misc]
        pass

    assert isinstance(run(token_prompts(1, 0, 20), manager=Mine).manager, Mine)


def test_a_model_that_cant_be_had_gives_its_place_to_the_byte_model(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    load = models.load_model

    def offline(name: str, **options: Any) -> Any:
        if name == "smollm2":
            raise ModelUnavailable("There is no network here.")
        return load(MODEL, **options)

    monkeypatch.setattr(models, "load_model", offline)
    lab_models.ready_model.cache_clear()
    try:
        served = serve(shared_prompts(1, "smollm2"), "none", "smollm2", n_blocks=200)
    finally:
        lab_models.ready_model.cache_clear()
    assert served.model == MODEL
    said = capsys.readouterr().out
    assert said.count("There is no network here.\nThe byte model takes its place") == 1


# ---------------------------------------------------------------- views


def test_served_requests_are_a_table_in_both_forms() -> None:
    served = run([*token_prompts(2, 32, 16), "<|user|>a < b<|end|>"], "hash")
    bundle = served._repr_mimebundle_()
    assert bundle["text/plain"] == str(served)
    assert "3 requests, byte-tiny model, prefix cache hash" in str(served)
    assert [line.split()[:4] for line in str(served).splitlines()[2:4]] == [
        ["1", "48", "0", "48"],
        ["2", "48", "32", "16"],
    ]
    assert "<th" in bundle["text/html"] and bundle["text/html"].count("<tr>") == 4


def test_side_by_side_says_where_answers_differ() -> None:
    one, other = token_prompts(2, 16, 16)
    rows = str(side_by_side({"one": run([one]), "again": run([one], "hash"), "other": run([other])})).splitlines()
    assert rows[0] == "1 request, byte-tiny model"
    assert [row.endswith("not the same") for row in rows[2:]] == [False, False, True]
    with pytest.raises(ValueError, match="at least one run"):
        side_by_side({})


def test_the_tree_under_a_manager_is_spelled_in_words() -> None:
    text = str(draw_tree(spelled_tree(run(shared_prompts(3), "radix"))))
    assert "[You are the he … ours or prices]=14 blocks" in text and text.count("└─") == 4
    assert "tree" in str(draw_tree(spelled_tree(run(shared_prompts(1), "hash"))))


def test_ratios_are_drawn_beside_their_limits() -> None:
    picture = draw_against_limit({"224 shared": (2.6, 3.0), "none <shared>": (1.0, 1.0)}, "How much sooner")
    assert "   224 shared  2.6 times sooner; the limit is 3.0" in picture.text
    assert "2.6 of 3.0" in picture.html and "<shared>" not in picture.html
    with pytest.raises(ValueError, match="at least one ratio"):
        draw_against_limit({})


# ---------------------------------------------------------------- a student's own work


def test_use_lent_binds_what_nobody_has_bound(names: dict[str, Any]) -> None:
    pool = names["KvPool"]
    for name in ("RadixTree", "RadixCache", "BlockManager"):
        del names[name]
    said = str(use_lent())
    assert names["KvPool"] is pool and "RadixTree (ds.07), RadixCache (L8.4), BlockManager (L10.4)" in said
    assert "KvPool" not in said and str(use_lent()) == "Ready."
    assert run(token_prompts(2, 32, 16), "radix").cached_tokens == (0, 32)


def notebook_of(source: str) -> str:
    """A submission whose cells print, draw and serve, as those of the course do."""
    before = "from course.lab import serve\nprint('noise')\ndisplay(serve(['x']))\nraise ValueError('a bad cell')"
    cells = [nbformat.v4.new_code_cell(text) for text in (before, source)]
    meta = {"grade_id": "step_1", "solution": True, "grade": False, "locked": False, "schema_version": 3, "task": False}
    cells[1]["metadata"]["nbgrader"] = meta
    return json.dumps(nbformat.v4.new_notebook(cells=cells))


def test_own_work_that_passes_is_bound_and_stands_on_own_work(
    tmp_path: Path, names: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"radix_tree": "class RadixTree: pass", "kv_pool": (SOLUTIONS / "kv_pool.py").read_text()}
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text(text)
    (tmp_path / "radix_cache").mkdir()
    source = (SOLUTIONS / "radix_cache.py").read_text()
    (tmp_path / "radix_cache" / "radix_cache.ipynb").write_text(notebook_of(source))
    (tmp_path / "serving_lab").mkdir()

    said = str(use_own_work(tmp_path / "serving_lab")).splitlines()
    assert [" ".join(row.split()) for row in said[2:6]] == [
        "L10.1 KvPool and kv_block_hash your own kv_pool.py passes all of its named tests",
        "ds.07 RadixTree lent radix_tree.py does not pass all of its named tests yet",
        "L8.4 RadixCache your own radix_cache.ipynb passes all of its named tests",
        "L10.4 BlockManager lent no block_manager.ipynb beside this notebook that can be read",
    ]
    assert "ol check ds.07 radix_tree.py" in said[6]
    assert "noise" not in capsys.readouterr().out

    served = run(token_prompts(2, 32, 16), "radix")
    assert served.cached_tokens == (0, 32)
    assert type(served.pool) is names["KvPool"] and names["KvPool"].__module__ == "own_kv_pool"
    assert names["RadixCache"].__module__ == "own_radix_cache"
    caches = [value for value in vars(served.manager).values() if type(value) is names["RadixCache"]]
    assert len(caches) == 1, "a lent manager stands on the student's own cache"
    assert type(caches[0].tree) is names["RadixTree"]


def test_without_any_work_everything_is_lent(tmp_path: Path, names: dict[str, Any]) -> None:
    said = str(use_own_work(tmp_path))
    assert said.count("  lent  ") == 4
    assert {names[name].__module__ for name in ("KvPool", "RadixTree", "RadixCache", "BlockManager")} == {
        f"autograder.flat.{module.name}" for module in modules.MODULES
    }
    assert run(token_prompts(2, 32, 16), "hash").cached_tokens == (0, 32)


# ---------------------------------------------------------------- options, and charts on a page


def test_a_twin_finds_what_was_published_while_the_first_one_runs() -> None:
    # two chunks a prompt: the second twin is admitted when the first one's first chunk is computed
    prompts = token_prompts(1, 0, 96) * 2
    late = {publish: run(prompts, "hash", at_once=2, chunk=48, publish=publish) for publish in ("release", "prefill")}
    assert late["release"].cached_tokens == (0, 0)
    assert late["prefill"].cached_tokens[1] >= 48
    assert late["release"].tokens == late["prefill"].tokens


def test_options_that_the_manager_in_use_lacks_take_the_one_that_is_lent_for_them() -> None:
    with pytest.raises(RuntimeError, match="lacks the option eviction and the call cached_prefix"):
        run(token_prompts(1, 0, 20), "radix", eviction="lfu", order="prefix")
    own_work.lend_for_options()
    served = run(token_prompts(3, 32, 16), "radix", eviction="lfu", order="prefix")
    assert served.cached_tokens == (0, 32, 32) and hasattr(served.manager, "cached_prefix")
    assert not hasattr(run(token_prompts(1, 0, 20), "radix").manager, "cached_prefix"), (
        "without options, the one in use"
    )


def test_a_chart_is_shown_with_its_text() -> None:
    picture = shown(ttft_chart, ttft_text, {"none": [0.1, 0.12], "hash": [0.04, 0.05]}, "one <machine>")
    assert str(picture).splitlines()[0] == "With the hash cache the first token comes 2.4 times sooner"
    assert picture.html.count("data:image/png;base64,") == 1 and picture.html.count("budget") == 2
