"""Templates are compiled once, and what stands in the cache of compiled ones never changes a page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports import templates
from reports.index.html import page

NAME = "index/index.html.j2"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    _forget()
    yield tmp_path / "stormproof"
    _forget()


def _forget() -> None:
    templates.template.cache_clear()
    templates._environment.cache_clear()


def _files(cache: Path) -> list[Path]:
    return [path for path in cache.rglob("*") if path.is_file()]


def test_one_process_compiles_a_template_once() -> None:
    assert templates.template(NAME) is templates.template(NAME)


@pytest.mark.parametrize("content", [b"", b"no code", None])
def test_a_damaged_file_is_compiled_anew(cache: Path, content: bytes | None) -> None:
    told = page("<runs>", [])
    (file,) = _files(cache)
    whole = file.read_bytes()
    file.write_bytes(whole[:-20] if content is None else content)
    _forget()
    assert page("<runs>", []) == told
    assert "&lt;runs&gt;" in told
    assert file.read_bytes() == whole


def test_nothing_is_taken_from_a_folder_that_others_can_write_into(cache: Path) -> None:
    page("<runs>", [])
    (file,) = _files(cache)
    file.parent.chmod(0o777)
    _forget()
    assert templates._compiled() is None
    assert "&lt;runs&gt;" in page("<runs>", [])


def test_pages_need_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    _forget()
    assert templates._compiled() is None
    assert "&lt;runs&gt;" in page("<runs>", [])


def test_the_cache_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    somebody = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: somebody)
    assert templates._compiled() is None
    assert not _files(tmp_path)
