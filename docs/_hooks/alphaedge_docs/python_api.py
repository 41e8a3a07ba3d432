"""What ``import alphaedge`` gives, from its docstrings."""

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

import alphaedge
from alphaedge_docs import docstrings
from alphaedge_docs.markdown import anchored, fence, sentence, table

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "Simulate": ("simulate", "Settings", "MethodSettings", "Conditions", "Results"),
    "Data": ("Dataset", "Stream", "Field", "Store", "synthetic"),
    "Models": ("Model", "IdTable", "Loss", "Adam", "Adagrad", "SGD"),
    "Methods": ("Method", "AlphaEdge", "RandPS", "NoPS", "FedWeight", "UniWeight", "NoAgg"),
    "Weights": ("Learned", "ByRecords", "Uniform", "Alone"),
    "Peers": ("Greedy", "Random", "Fixed", "Everybody", "Nobody"),
    "The home model": ("Home",),
    "A live edge": ("Edge",),
    "Errors": ("AlphaEdgeError", "InvalidValue", "ModelError"),
}
WIDTH: Final = 80


def reference() -> str:
    """All public names, in groups."""
    known = [name for names in GROUPS.values() for name in names]
    rest = tuple(name for name in alphaedge.__all__ if name not in known)
    made = []
    for title, names in [*GROUPS.items(), *([("Others", rest)] if rest else [])]:
        made.append(f"## {title}\n")
        made += [_entry(name, getattr(alphaedge, name)) for name in names]
    return "\n".join(made)


def _entry(name: str, what: Any) -> str:
    made = [f"### `{name}` {{ #api-{name} }}\n", fence(f"{name}{_signature(what)}", "python")]
    parameters = _parameters(what)
    made.append(docstrings.without_fields(what, list(parameters)))
    if parent := _public_parent(what):
        made.append(f"Arguments and members are those of [`{parent}`](#api-{parent}).\n")
        parameters = {}
    said = docstrings.fields(what) | docstrings.told(inspect.getdoc(what) or "", list(parameters))
    rows = [(f"`{p}`", f"`{d}`" if d else "", sentence(said.get(p, ""))) for p, d in parameters.items() if p in said]
    if rows:
        made.append(table(("argument", "default", "meaning"), rows))
    if inspect.isclass(what) and not issubclass(what, Exception):
        some = [m for m in _members(what) if not parent or m[0] in vars(what)]
        members = [(anchored("api", f"{name}.{m}", shown), text) for m, shown, text in some]
        if members:
            made.append(table(("member", "meaning"), members))
    return "\n".join(made)


def _public_parent(what: Any) -> str:
    """The name of the public class that a class is made from, if there is one that has arguments."""
    if not inspect.isclass(what) or issubclass(what, Exception):
        return ""
    return next((c.__name__ for c in what.__mro__[1:] if c.__name__ in alphaedge.__all__), "")


def _signature(what: Any) -> str:
    """Names and defaults of the arguments; of a class that is made from another, those that it has changed."""
    signature = _bare(what)
    if signature is None:
        return ""
    shown = list(signature.parameters.values())
    if _public_parent(what):
        return "(" + ", ".join(str(p) for p in shown if p.name in vars(what).get("__annotations__", {})) + ", ...)"
    text = str(signature)
    return text if len(text) <= WIDTH else "(\n    " + ",\n    ".join(_starred(shown)) + ",\n)"


def _starred(parameters: list[inspect.Parameter]) -> Iterator[str]:
    """Parameters with the star that divides those that have to be named from the others."""
    named = False
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not named:
            named = True
            yield "*"
        named = named or p.kind is p.VAR_POSITIONAL
        yield str(p)


def _bare(what: Any) -> inspect.Signature | None:
    """A signature without types, with defaults as they are to be read."""
    try:
        found = inspect.signature(what)
    except ValueError:
        return None
    made = {f.name: f.default_factory for f in dataclasses.fields(what)} if _is_data(what) else {}
    shown = []
    for p in found.parameters.values():
        default = p.default
        if made.get(p.name, dataclasses.MISSING) is not dataclasses.MISSING:
            default = made[p.name]()  # type: ignore[operator]
        text = p.empty if default is p.empty else _Text(_default(default))
        shown.append(p.replace(annotation=p.empty, default=text))
    return found.replace(parameters=shown, return_annotation=inspect.Signature.empty)


def _is_data(what: Any) -> bool:
    return inspect.isclass(what) and dataclasses.is_dataclass(what)


class _Text(str):
    """A text that is shown without quotation marks."""

    def __repr__(self) -> str:
        return str(self)


def _default(value: Any) -> str:
    if isinstance(value, msgspec.Struct) or dataclasses.is_dataclass(value):
        return f"{type(value).__name__}()"
    if callable(value):
        return "..."
    return "{}" if repr(value) == "<factory>" else repr(value)  # msgspec's only factories here make a dict


def _parameters(what: Any) -> dict[str, str]:
    found = _bare(what)
    if found is None:
        return {}
    return {n: "" if p.default is p.empty else p.default for n, p in found.parameters.items() if n[0] != "_"}


def _members(what: type) -> Iterator[tuple[str, str, str]]:
    """Public methods and properties that say what they do."""
    for name, member in inspect.getmembers(what):
        static = inspect.getattr_static(what, name)
        text = inspect.getdoc(static if isinstance(static, property) else member)
        if name.startswith("_") or not text or not _own(what, name) or dataclasses.is_dataclass(member):
            continue
        if isinstance(static, property):
            yield name, name, docstrings.summary(static)
        elif inspect.isroutine(member):
            shown = re.sub(r"\((?:self|cls)(?:, )?", "(", str(_bare(member)))
            prefix = "await " if inspect.iscoroutinefunction(member) else ""
            yield name, f"{prefix}{name}{shown}", docstrings.summary(member)


def _own(what: type, name: str) -> bool:
    return any(name in vars(c) and c.__module__.startswith("alphaedge.") for c in what.__mro__)
