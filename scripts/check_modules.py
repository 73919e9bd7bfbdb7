#!/usr/bin/env python3
"""The build file is the architecture: reads the tessera_module(…) lines and fails on

  - an #include of a module that the line does not allow, and on a cycle of modules
  - a third-party header in two modules, or a heavy one in two files
  - fmt in a header of kernels/ or in a source that nvcc compiles, which cannot read it
  - a file over 500 lines, a header over 200, a function over 60 (kernels 120; needs ctags)
  - a file that opens the namespace of another module (allowed to specialize a template of it)
  - a type name that two files give to two types of one namespace
  - a source without a header whose first line is not a comment
  - a source of src/ or tests/ that no build file names
  - a class with more than 25 methods or 15 members (needs ctags)
  - a comment or a document that names a source that does not exist
  - a comparison of a name with text in compile/, plan/ or runtime/: meaning has an enum, not a name
  - #if: absence is a file

usage: scripts/check_modules.py [ROOT]
"""
import collections
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

MAX_FILE, MAX_HEADER, MAX_FUNCTION, MAX_KERNEL = 500, 200, 60, 120
SUFFIXES = {".h", ".cc", ".cu", ".cuh"}
# Libraries by the prefix of their headers. Headers of a heavy library are included in one .cc.
LIBRARIES = {
    "nlohmann/": "nlohmann-json", "yaml-cpp/": "yaml-cpp", "spdlog/": "spdlog", "CLI/": "CLI11",
    "simdjson": "simdjson", "google/protobuf/": "protobuf", "oneapi/dnnl": "oneDNN", "dnnl": "oneDNN",
    "hwy/": "Highway", "utf8proc": "utf8proc", "pcre2": "PCRE2", "zstd": "zstd", "zlib": "zlib", "xxhash": "xxHash",
    "mpi": "MPI", "nccl": "NCCL", "Eigen/": "Eigen", "sentencepiece": "SentencePiece",
    "cblas": "OpenBLAS", "cublas": "cuBLAS", "cudnn": "cuDNN",
}
HEAVY = {"nlohmann-json", "yaml-cpp", "spdlog", "CLI11", "simdjson", "oneDNN"}


MAX_METHODS, MAX_MEMBERS = 25, 15


# Modules in which meaning is in enums and roles: no decision depends on a comparison with a literal text.
# Files that may, and why: they read text that users write.
TEXT_FREE_MODULES = ("compile", "plan", "runtime")
TEXT_READERS = {
    "compile/layout.cc": "parses the value of layout.recompute",
    "compile/schedule/offload.cc": "parses the value of layout.offload",
    "compile/graph/adapters.cc": "names the weights of adapters after a weight, without its suffix",
}


def declared_modules(src):
    """{module: modules it may include}, from the CMake files."""
    modules = {}
    for path in sorted(src.glob("*/CMakeLists.txt")):
        text = re.sub(r"#.*", "", path.read_text())
        for call in re.findall(r"tessera_module\s*\(([^)]*)\)", text):
            words = call.split()
            name, allowed, taking = words[0], set(), False
            for word in words[1:]:
                if word.isupper():
                    taking = word == "MAY_INCLUDE"
                elif taking:
                    allowed.add(word)
            if name != path.parent.name:
                wrong(f"{path}: module '{name}' is in the folder '{path.parent.name}'")
            modules[name] = allowed
    return modules


ERRORS = []


def wrong(message):
    ERRORS.append(message)


def circles(graph):
    """Returns the modules that include themselves through others."""
    def reach(start):
        seen, stack = set(), [start]
        while stack:
            for following in graph.get(stack.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    stack.append(following)
        return seen
    return sorted(module for module in graph if module in reach(module))


def library_of(header):
    for prefix, name in LIBRARIES.items():
        if header.startswith(prefix):
            return name
    return None


INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def check_device_sources(root, src, files):
    """nvcc cannot compile the format strings of fmt."""
    def included(path):
        for line in path.read_text(errors="replace").splitlines():
            if found := INCLUDE.match(line):
                yield found[1] or found[2]

    for start in files:
        if start.suffix != ".cu" and not (start.suffix == ".h" and start.parent == src / "kernels"):
            continue
        seen, stack = {start}, [start]
        while stack:
            path = stack.pop()
            for header in included(path):
                if header.startswith("fmt/"):
                    wrong(f"{start.relative_to(root)}: fmt, by {path.relative_to(root)}. nvcc cannot "
                          "compile it: use base/require.h instead of base/error.h")
                elif (src / header).is_file() and src / header not in seen:
                    seen.add(src / header)
                    stack.append(src / header)


def check_includes(root, src, modules, files):
    used = collections.defaultdict(set)
    by_library = collections.defaultdict(lambda: collections.defaultdict(set))
    for path in files:
        module, where = path.relative_to(src).parts[0], path.relative_to(root)
        if module not in modules:
            wrong(f"{where}: the folder '{module}' has no tessera_module line")
            modules[module] = set()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if re.match(r"\s*#\s*if", line) and "HWY" not in line:
                wrong(f"{where}:{number}: #if. Absence is a file the build leaves out")
            found = INCLUDE.match(line)
            if not found:
                continue
            ours, theirs = found.groups()
            library = library_of(ours or theirs)
            if library:
                by_library[library][module].add(str(where))
            target = (ours or "").split("/")[0]
            if not ours or target == module or not (src / target).is_dir():
                continue
            used[module].add(target)
            if target not in modules[module]:
                wrong(f"{where}:{number}: {module} may not include {ours}. It may include: "
                            f"{', '.join(sorted(modules[module])) or 'none'}")
    for library, where in sorted(by_library.items()):
        if len(where) > 1:
            wrong(f"{library} is included by {len(where)} modules: {', '.join(sorted(where))}")
        sources = sorted(f for files_of_room in where.values() for f in files_of_room)
        if library in HEAVY and len(sources) > 1:
            wrong(f"{library} is heavy and is included by {len(sources)} files: "
                        f"{', '.join(sources)}")
    for name, graph in (("declared", modules), ("included", used)):
        if circles(graph):
            wrong(f"cycle of modules ({name}): {', '.join(circles(graph))}")


def function_lengths(src):
    """(path, line, name, lines) of every function, by ctags."""
    if not shutil.which("ctags"):
        return []
    out = subprocess.run(["ctags", "--fields=+ne", "-R", "-o", "-", "--c++-kinds=f", str(src)],
                         capture_output=True, text=True).stdout
    found = []
    for line in out.splitlines():
        match = re.match(r"(\S+)\t(\S+)\t.*?line:(\d+).*?end:(\d+)", line)
        if match:
            name, path, begin, end = match.groups()
            found.append((pathlib.Path(path), int(begin), name, int(end) - int(begin) + 1))
    return found


DEFINITION = re.compile(
    r"^(?:(?:struct|class|enum class|enum) (?:\[\[\w+\]\] )?(\w+)(?: final)?(?: : [^;{]*)?(?: \{|$)|using (\w+) =)")


# Modules whose names all others use: their names are in `tessera` itself.
VOCABULARY = {"base", "ir", "tensor"}
NAMESPACE = re.compile(r"(?:inline )?namespace ([\w:]+) \{")
SPECIALISATION = re.compile(r"\s*template <>\s+(?:struct|class|constexpr|inline|const|[\w:]+)\b")


def check_namespaces(root, src, files):
    """The names of a module are in its own namespace. A specialization must be in the namespace of its template, so a
    block that begins with one may open the namespace of another module. Namespaces of libraries are not checked."""
    names = "|".join(sorted(p.name for p in src.iterdir() if p.is_dir()))
    for path in files:
        module, text = path.relative_to(src).parts[0], path.read_text(errors="replace")
        own = "tessera" if module in VOCABULARY else f"tessera::{module}"
        for found in re.finditer(r"(?m)^" + NAMESPACE.pattern, text):
            opened = found.group(1)
            inner = opened.removeprefix(own)
            # Below `tessera` a vocabulary module may nest namespaces, except those named after modules.
            allowed = opened.startswith(own) and (
                not inner or inner.startswith("::") and
                not (module in VOCABULARY and (src / inner.split("::")[1]).is_dir()))
            ours = opened.split("::")[0] == "tessera"
            if ours and not allowed and not SPECIALISATION.match(text, found.end()):
                wrong(f"{path.relative_to(root)}:{text.count(chr(10), 0, found.start()) + 1}: namespace {opened} "
                      f"in module {module}, whose namespace is {own}")
        if using := re.search(rf"(?m)^\s*using namespace (?:tessera|{names})\b.*", text):
            wrong(f"{path.relative_to(root)}: {using.group(0).strip()}: name the module at each use")
        if path.suffix == ".h" and (using := re.search(r"(?m)^using (?!namespace)[\w:]+;", text)):
            wrong(f"{path.relative_to(root)}: {using.group(0)} in a header reaches all that include it")


def check_type_names(root, files):
    """Two types of one name in one namespace are one type for the linker: their functions are mixed."""
    defined = collections.defaultdict(set)
    for path in files:
        namespaces = []
        for line in path.read_text(errors="replace").splitlines():
            opened = re.match(r"namespace(?: ([\w:]+))? \{", line)
            if opened:
                namespaces.append(opened.group(1) or "")
            elif re.match(r"\}\s*// namespace", line) and namespaces:
                namespaces.pop()
            found = DEFINITION.match(line)
            if found and namespaces and "" not in namespaces:
                defined["::".join(namespaces), found.group(1) or found.group(2)].add(path.relative_to(root))
    for (namespace, name), paths in sorted(defined.items()):
        if len(paths) > 1:
            wrong(f"{namespace}::{name} is defined in {len(paths)} files: {', '.join(map(str, sorted(paths)))}")


def check_first_lines(root, files):
    """A header is the manual of the source that includes it first and has its name."""
    for path in files:
        if path.suffix not in {".cc", ".cu"}:
            continue
        text = path.read_text(errors="replace")
        first = re.match(r'#include "(?:[^"]*/)?([^"/]+)\.h"', text)
        if not text.startswith("//") and not (first and first.group(1) == path.stem):
            wrong(f"{path.relative_to(root)}: has no header, so its first line must be a comment that describes it")


def check_build_files(root):
    """A source that no build file names is never compiled. A build file names one by itself, or its folder by
    FOLDERS of a module or by a glob."""
    def text_of(path):
        return re.sub(r"#.*", "", path.read_text())

    def folders_of(text):
        named = re.findall(r"FOLDERS((?:\s+[a-z_]+)+)", text) + re.findall(r"([\w/]+)/\*\.(?:cc|cu)", text)
        return {folder for words in named for folder in words.split()}

    shared = "".join(text_of(p) for p in sorted((root / "cmake").glob("*.cmake")))
    texts = {p.parent: text_of(p) for top in ("src", "tests") for p in (root / top).rglob("CMakeLists.txt")}
    for folder in ("src", "tests"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cc", ".cu"} or "toy_op/tree" in str(path):
                continue
            if any(str(path.parent.relative_to(d)) in folders_of(texts[d]) for d in path.parents if d in texts):
                continue
            names = [(texts[d], path.relative_to(d)) for d in path.parents if d in texts]
            names.append((shared, path.relative_to(root)))
            if not any(re.search(rf"(?<![\w.-]){re.escape(str(name))}(?![\w.])", text) for text, name in names):
                wrong(f"{path.relative_to(root)}: no build file names it")


def class_sizes(src):
    """{class: (path, methods, members)} by ctags, without constructors, destructors and operators."""
    if not shutil.which("ctags"):
        return {}
    out = subprocess.run(["ctags", "--fields=+neKs", "--extras=", "-R", "-o", "-", "--kinds-c++=pfmc", str(src)],
                         capture_output=True, text=True).stdout
    spans, entries = {}, []
    for line in out.splitlines():
        name, path, _, *rest = line.split("\t")
        fields = dict(field.split(":", 1) for field in rest if ":" in field)
        kind = next((field for field in rest if ":" not in field), "")
        scope = fields.get("class") or fields.get("struct") or fields.get("namespace")
        at = int(fields.get("line", 0))
        if kind == "class":
            spans[path, f"{scope}::{name}" if scope else name] = (at, int(fields.get("end", 0)))
        elif kind in {"prototype", "function", "member"} and "class" in fields:
            entries.append((name, path, kind, fields["class"], at))
    sizes = {key: [0, 0] for key in spans}
    for name, path, kind, cls, at in entries:
        begin, end = spans.get((path, cls), (0, -1))
        if not begin <= at <= end:
            continue  # a definition outside the class, which has its declaration inside
        if kind == "member":
            sizes[path, cls][1] += 1
        elif name.lstrip("~") != cls.split("::")[-1] and not name.startswith("operator"):
            sizes[path, cls][0] += 1
    return {cls: (path, *counts) for (path, cls), counts in sizes.items()}


def check_classes(root, src):
    for cls, (path, methods, members) in sorted(class_sizes(src).items()):
        if methods > MAX_METHODS or members > MAX_MEMBERS:
            wrong(f"{pathlib.Path(path).relative_to(root)}: {cls} has {methods} methods and {members} members, "
                  f"at most {MAX_METHODS} and {MAX_MEMBERS}")


# A path of at least one folder, such as compile/lower/scratch.cc.
NAMED_SOURCE = re.compile(r"(?<![\w/.~$}-])((?:\w+/)+[a-z0-9_]+\.(?:h|cc|cu|py|sh|cmake|md))\b")


def check_named_sources(root):
    """A comment or a document may name a source by the end of its path. Paths whose first folder is not of this tree
    belong to other projects."""
    files = [p for top in ("src", "tests", "bench", "studies", "docs", "scripts", "cmake") for p in (root / top).rglob("*")
             if p.is_file()]
    ends, folders = set(), set()
    for path in files:
        parts = path.relative_to(root).parts
        ends.update("/".join(parts[first:]) for first in range(len(parts)))
        folders.update(parts[:-1])
    for path in [*files, *root.glob("*.md")]:
        if path.suffix not in SUFFIXES | {".md"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            text = line if path.suffix == ".md" else "".join(line.partition("//")[1:])
            for named in NAMED_SOURCE.findall(text):
                if named.split("/")[0] in folders and named not in ends:
                    wrong(f"{path.relative_to(root)}:{number}: names {named}, which does not exist")


# "…" next to == or !=, or as the argument of a search. A constant counts if the file defines it by a literal.
TEXT = r'(?:(?:u8|R)?"|{constants})'
TEXT_COMPARISON = r'[!=]=\s*{text}|(?:"|{constants})\s*[!=]=|\b(?:starts_with|ends_with|find|rfind|contains|compare)\({text}'
TEXT_CONSTANT = re.compile(r'(?:char\s*\*\s*(?:const\s+)?|string_view\s+|auto\s+|,\s*)(k[A-Z]\w*)\s*=\s*"')


def check_text_comparisons(root, src, files):
    """A part, an op or a device is known by its enum. A name that is renamed would change what the code does."""
    used = set()
    for path in files:
        name = str(path.relative_to(src))
        if path.relative_to(src).parts[0] not in TEXT_FREE_MODULES:
            continue
        text = path.read_text(errors="replace")
        names = TEXT_CONSTANT.findall(text)
        constants = rf"\b(?:{'|'.join(names)})\b" if names else r"(?!)"
        pattern = TEXT_COMPARISON.format(text=TEXT.format(constants=constants), constants=constants)
        for number, line in enumerate(text.splitlines(), 1):
            code = re.sub(r"^\s*//.*|\s//\s.*$", "", line)
            if not re.search(pattern, code):
                continue
            used.add(name)
            if name not in TEXT_READERS:
                wrong(f"{path.relative_to(root)}:{number}: compares text with a text of the source. Use an enum, or "
                      "list the file in TEXT_READERS if it reads what users write")
    for name in sorted(set(TEXT_READERS) - used):
        wrong(f"scripts/check_modules.py: TEXT_READERS names {name}, which compares no text")


def check_sizes(root, src, files):
    lengths = {path: len(path.read_text(errors="replace").splitlines()) for path in files}
    for path, lines in sorted(lengths.items()):
        limit = MAX_HEADER if path.suffix in {".h", ".cuh"} else MAX_FILE
        if lines > limit:
            wrong(f"{path.relative_to(root)}: {lines} lines, at most {limit}")
    functions = function_lengths(src)
    for path, line, name, lines in functions:
        limit = MAX_KERNEL if path.relative_to(src).parts[0] == "kernels" else MAX_FUNCTION
        if lines > limit:
            wrong(f"{path.relative_to(root)}:{line}: {name} has {lines} lines, at most {limit}")
    summary = (f"{len(files)} files, {sum(lengths.values())} lines, "
               f"median {statistics.median(lengths.values()):.0f}, longest {max(lengths.values())}")
    if functions:
        sizes = [f[3] for f in functions]
        summary += (f"; {len(sizes)} functions, median {statistics.median(sizes):.0f}, "
                    f"longest {max(sizes)}")
    return summary


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    src = root / "src"
    files = sorted(p for p in src.rglob("*") if p.suffix in SUFFIXES)
    if not files:
        sys.exit(f"{src}: no source found")
    modules = declared_modules(src)
    check_includes(root, src, modules, files)
    check_device_sources(root, src, files)
    check_namespaces(root, src, files)
    check_type_names(root, files)
    check_first_lines(root, files)
    check_build_files(root)
    check_named_sources(root)
    check_classes(root, src)
    check_text_comparisons(root, src, files)
    summary = check_sizes(root, src, files)
    for message in ERRORS:
        print(message)
    print(f"{len(modules)} modules, {summary}: " + (f"{len(ERRORS)} wrong" if ERRORS else "all right"))
    sys.exit(1 if ERRORS else 0)


if __name__ == "__main__":
    main()
