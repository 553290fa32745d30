"""``gpuforge report-issue``: what is known to be harmless is shown, and no secret ever is."""

from __future__ import annotations

import base64
import json
import string
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpuforge.cli.commands.report_issue import collect
from gpuforge.cli.main import main
from gpuforge.cli.redaction import MASK, Redactor, vocabulary

LETTERS = string.ascii_letters + string.digits


def drawn(letters: str, least: int, most: int) -> st.SearchStrategy[str]:
    """Return texts of random letters; `st.text` also draws words out of the code that is loaded."""
    return st.lists(st.sampled_from(letters), min_size=least, max_size=most).map("".join)


body = drawn(LETTERS, 16, 40)
TOKENS = st.one_of(
    *(body.map(lambda text, start=start: start + text) for start in (
        "ghp_", "gho_", "github_pat_11", "glpat-", "hf_", "sk-", "sk-proj-", "sk-ant-api03-",
        "nvapi-", "pypi-AgE", "npm_", "xoxb-123-", "xapp-1-A0", "AKIA", "ASIA", "dckr_pat_", "AIza",
        "ya29.", "GOCSPX-", "rk_live_", "dop_v1_", "hvs.", "SG.", "wandb_v1_",
        "")),
    st.tuples(body, body).map(lambda t: f"{t[0][:3]}8Q~{t[1]}"),  # of an application in Azure
    st.tuples(body, body).map(lambda t: f"T0{t[0][:8]}/B0{t[1][:8]}/{t[0]}"),  # a hook of Slack
    st.binary(min_size=30, max_size=30).map(lambda raw: base64.b64encode(raw).decode()),  # of AWS
    st.binary(min_size=64, max_size=64).map(lambda raw: base64.b64encode(raw).decode()),  # of Azure
    st.tuples(body, body, body).map(lambda t: f"eyJ{t[0]}.eyJ{t[1]}.{t[2]}"),
    st.binary(min_size=20, max_size=40).map(lambda raw: base64.b64encode(raw).decode()),
    drawn("0123456789abcdef", 32, 64),
    st.uuids().map(str),
    drawn(LETTERS + "!#$%^&*-_", 10, 24).filter(
        lambda text: any(c.isdigit() for c in text) and not text.isdigit()),
)  # fmt: skip
PLACES = (
    "https://{}@index.example/simple", "https://user:{}@index.example/simple",
    "https://{}:x-oauth-basic@host/a.git", "https://host/simple?token={}",
    "https://host/a?x=1&sig={}&y=2", "https://host/{}/simple", "git+https://{}@github.com/a/b",
    '{{"token": "{}"}}', '{{"value": ["{}"]}}', "token {}", "TOKEN={}", "API_KEY: {}",
    "Authorization: Bearer {}", "authorization: Basic {}", "Cookie: sid={}; theme=dark",
    "Set-Cookie: session={}", "password = {}", "extra-index-url = https://__token__:{}@host/",
    "--password {}", "--token={}", "-p{}", "echo {} | docker login", "/opt/app/{}/lib", "~/{}",
    "C:\\Users\\me\\{}", "{}", "'{}'", "({})", "a,{},b", "machine host login me password {}",
    "DefaultEndpointsProtocol=https;AccountName=lab;AccountKey={};EndpointSuffix=windows.net",
    "BlobEndpoint=https://lab.blob.example/;SharedAccessSignature={}", "AZURE_CLIENT_SECRET='{}'",
    '{{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END"}}',
    "-----BEGIN OPENSSH PRIVATE KEY-----\n{0}\n{0}\n-----END OPENSSH PRIVATE KEY-----",
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{}\n", "ssh-ed25519 {} me@host",
    "sv=2024-11-04&se=2026-01-01&sig={}", "https://hooks.slack.example/services/{}",
    "//registry.example/:_authToken={}",
    "HTTPS_PROXY=http://user:{}@proxy.example:3128", "http://{}:pw@proxy:8080/",
    "[global]\nindex-url = https://user:{}@index.example/simple\nproxy = http://u:{}@proxy:1",
    "machine index.example\n  login me\n  password {}", "X-Api-Key: {}", "PRIVATE-TOKEN: {}",
    "curl -u me:{} https://index.example", "WANDB_API_KEY {}", "Proxy-Authorization: Basic {}",
    "aws_session_token = {}", "postgresql://me:{}@db/runs", "token: !!str {}", "--build-arg K={}",
    "conda config --add channels https://conda.example/t/{}/main", "gpg --passphrase {}",
    "aws_secret_access_key={}", "failed with {} after 3 tries", "{}:x", "key:{}", "s3://{}/bucket",
)  # fmt: skip
NAMES = (
    "CUDA_API_TOKEN", "TORCH_AUTH", "NCCL_PWD", "HSA_KEY", "TF_SECRET_JSON", "CUDA_NOTE",
    "LD_LIBRARY_PATH", "GPUFORGE_PACKAGE_INDEX", "CUDA_VISIBLE_DEVICES", "ZE_COOKIE", "XLA_FLAGS",
)  # fmt: skip


def left(secret: str, shown: str) -> bool:
    """Return whether a secret, or a telling part of it, is still there.

    A part of a known word tells nothing: hypothesis also draws the names in gpuforge's own source.
    """
    size = min(len(secret), 12)
    parts = {secret[n : n + size] for n in range(len(secret) - size + 1)}
    found = [part.casefold() for part in parts if part in shown]
    return any(not any(part in word for word in vocabulary()) for part in found)


@settings(max_examples=600, suppress_health_check=[HealthCheck.too_slow])
@given(TOKENS, st.sampled_from(PLACES), st.sampled_from(("message", "value", "key", "0")))
@example("PYTHONNOUSERSITE", "echo {} | docker login", "message")
def test_no_secret_is_shown_wherever_it_stands(secret: str, place: str, name: str) -> None:
    redactor = Redactor(("numpy", "torch", "2.9.0"))
    text = place.format(*[secret] * 2)
    for value in (text, f"numpy 2.9.0: {text}", f"cannot read\n{text}\nagain", {text: 1}, [[text]]):
        assert not left(secret, json.dumps(redactor.value({name: value}), ensure_ascii=False))


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(PLACES), TOKENS), max_size=6))
def test_no_secret_of_the_environment_is_in_the_bundle(
    monkeypatch: pytest.MonkeyPatch, planted: list[tuple[str, str, str]]
) -> None:
    with monkeypatch.context() as patch:
        for name, place, secret in planted:
            if "\0" not in secret:
                patch.setenv(name, place.format(*[secret] * 2))
        shown = json.dumps(collect(), ensure_ascii=False)
    for name, place, secret in {name: (name, *rest) for name, *rest in planted}.values():
        assert not left(secret, shown), (name, place)


@pytest.mark.parametrize(
    ("value", "gone"),
    [
        ("https://user:secret7@proxy.example:8080/simple", "secret7"),
        ("GPU-12345678-1234-1234-1234-123456789abc", "123456789abc"),
        ("/home/somebody/project", "somebody"),
        ("/home/cuda/project", "/cuda/"),
        ("mail ada@example.org", "ada"),
        ("reached 10.1.2.3 at once", "10.1.2.3"),
        ("reached fe80::1ff:fe23:4567:890a at once", "fe23"),
        ("password: 1234", "1234"),
        ("PIN=1234", "1234"),
        ("a1b2c3d4e5f6", "b2c3"),
        ("ab12cd34ef56", "cd34"),
    ],
)
def test_private_things_are_masked(value: str, gone: str) -> None:
    assert gone not in json.dumps(Redactor().value({"x": [value]}))


@pytest.mark.parametrize(
    "text",
    [
        "NVIDIA GeForce RTX 4090, driver 570.26, CUDA 12.8, compute capability 8.9",
        "0000:01:00.0",
        "numpy 2.4.6 is incomplete: 3 of its 509 files are missing",
        "torch 2.9.0+cu128",
        "/usr/lib/python3.11/site-packages/numpy/__init__.py",
        "the driver serves CUDA 12",
        "23.1 GiB of main memory are available",
        "https://download.pytorch.org/whl",
        "CUDA_VISIBLE_DEVICES=0,1",
        "shadowing_modules",
        "3 wheels in pip's cache are complete",
        "gfx90a needs rocm7.2",
        "Linux 6.18.44 x86_64",
        "program_launchers",
        "python -m pip",
    ],
)
def test_what_a_report_needs_is_shown(text: str) -> None:
    assert Redactor(("numpy", "2.4.6", "torch", "2.9.0")).text(text) == text


def test_bundle_holds_facts_versions_and_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_API_TOKEN", "hunter2")
    path = tmp_path / "report.json"
    assert main(["report-issue", "-o", str(path)]) == 0
    bundle = json.loads(path.read_text("utf-8"))
    assert {"gpuforge", "python", "machine", "packages", "findings", "variables"} <= set(bundle)
    assert bundle["packages"]["numpy"] and MASK not in bundle["packages"]["numpy"][0]
    assert "hunter2" not in path.read_text("utf-8")
    assert str(Path.home()) not in path.read_text("utf-8")
    shown = [f["message"] for f in bundle["findings"]]
    assert sum(MASK in message for message in shown) <= len(shown) / 4
    assert "nothing was sent" in capsys.readouterr().err
