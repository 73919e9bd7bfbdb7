"""The completions of bash, zsh and fish, from the commands of shell_files.py and the values of shell_arguments.py."""
import re

from shell_arguments import argument_kinds, value_kind


def all_commands(command):
    yield command
    for child in command.children:
        yield from all_commands(child)


def option_kinds(command):
    """The options of a command that need a value, with the kinds of the values."""
    return [(name, value_kind(name, value, text)) for name, value, text in command.options if value]


def names_below(command):
    """The names that can follow a command that has commands."""
    return [child.path[-1] for child in command.children] + ["help"]


# ---- bash

# `typed` is the argument to complete, or its part after '='. A directory gets a '/' only where a file is expected.
BASH = r"""
_tessera_add() {  # CHOICES
  local found
  mapfile -t found < <(compgen -W "$1" -- "$typed")
  COMPREPLY+=("${found[@]}")
}

_tessera_files() {
  local found
  mapfile -t found < <(compgen -f -- "$typed")
  COMPREPLY+=("${found[@]}")
  compopt -o filenames 2>/dev/null
}

# Completes one part of a key, to the next dot: optim -> optimizer. -> optimizer.learning_rate=
_tessera_override() {
  local key item last= before=${typed%"${typed##*.}"}
  for key in $_tessera_keys; do
    [ "${key#"$typed"}" != "$key" ] || [ -z "$typed" ] || continue
    item=${key#"$before"}
    case "$item" in
      *.*) item=${item%%.*}. ;;
      *) item=$item= ;;
    esac
    [ "$item" = "$last" ] || COMPREPLY+=("$before$item")
    last=$item
  done
  [ ${#COMPREPLY[@]} -gt 0 ] && compopt -o nospace 2>/dev/null
}

_tessera_value_of() {  # KEY
  case "$1" in
@VALUES@
    *) _tessera_kind none ;;
  esac
}

_tessera_kind() {  # KIND
  case "$1" in
    file) _tessera_files ;;
@NAMES@
    key) _tessera_add "$_tessera_keys $_tessera_sections" ;;
    override) _tessera_override ;;
    choice:*) local choices=${1#choice:}
      _tessera_add "${choices//,/ }" ;;
  esac
}

_tessera() {
  local line=() i glued= typed options= valued= arguments= path= kind= entry
  # Joins --option=value and key=value, which bash divides at '='.
  for ((i = 1; i <= COMP_CWORD; ++i)); do
    typed=${COMP_WORDS[i]}
    if [ ${#line[@]} -gt 0 ] && { [ "$typed" = = ] || [ -n "$glued" ]; }; then
      line[${#line[@]} - 1]+=$typed
      glued=; [ "$typed" = = ] && glued=1
    else
      line+=("$typed")
    fi
  done
  local count=$((${#line[@]} - 1)) first=1
  local whole=${line[count]}
  COMPREPLY=()
  [ "${line[0]}" = help ] && [ "$count" -gt 0 ] && { line=("${line[@]:1}"); count=$((count - 1)); }
  if [ "$count" -gt 0 ]; then
    path=${line[0]}
    case "$path" in
      @GROUPS@) [ "${line[1]}" = help ] && [ "$count" -gt 1 ] && { line=("$path" "${line[@]:2}"); count=$((count - 1)); }
        first=2
        [ "$count" -gt 1 ] && path="$path ${line[1]}" ;;
    esac
  fi
  case "$path" in
@COMMANDS@
  esac
  typed=$whole
  # Counts the arguments before it, without options and their values.
  local position=0 option=
  for ((i = first; i < count; ++i)); do
    if [ -n "$option" ]; then
      option=
    elif [ "${line[i]#-}" != "${line[i]}" ]; then
      case " $valued " in *" ${line[i]} "*) option=${line[i]} ;; esac
    else
      position=$((position + 1))
    fi
  done
  case "$typed" in
    -*=*) option=${typed%%=*} typed=${typed#*=} ;;
  esac
  if [ -n "$option" ]; then
    kind=none
    for entry in $valued; do
      [ "$kind" = found ] && kind=$entry && break
      [ "$entry" = "$option" ] && kind=found
    done
  elif [ "${typed#-}" != "$typed" ]; then
    _tessera_add "$options"
    return
  else
    for entry in $arguments; do
      kind=$entry
      [ "$position" -le 0 ] && break
      [ "${entry%+}" = "$entry" ] && position=$((position - 1)) kind=
    done
  fi
  kind=${kind%+}
  if [ "$kind" = override ] && [ "${typed#*=}" != "$typed" ]; then
    entry=${typed%%=*} typed=${typed#*=}
    _tessera_value_of "$entry"
  elif [ -n "$kind" ]; then
    _tessera_kind "$kind"
  else
    _tessera_add "$options"
  fi
  # If bash does not divide at '=', the key is replaced, too.
  if [[ "$whole" = *=* && "$COMP_WORDBREAKS" != *=* ]]; then
    COMPREPLY=("${COMPREPLY[@]/#/"${whole%%=*}="}")
  fi
}
complete -F _tessera tessera
"""


def bash(program, known):
    commands = []
    for command in all_commands(program):
        if command.children:
            own = f"options='{'--help' if command.path else '--help --version'}' arguments='choice:{','.join(names_below(command))}'"
        else:
            valued = " ".join(f"{name} {kind}" for name, kind in option_kinds(command))
            arguments = " ".join(argument_kinds(command)).replace("*", "+")  # bash replaces * by file names
            options = " ".join(name for name, _, _ in command.options)
            own = f"options='{options}'\n      valued='{valued}'\n      arguments='{arguments}'"
        commands.append(f"    '{' '.join(command.path)}') {own} ;;")
    values = [f"    {name}) _tessera_kind '{kind}' ;;" for name, kind in known.values.items() if kind != "none"]
    names = [f"    {kind}) _tessera_add '{' '.join(names)}'; _tessera_files ;;" for kind, names in known.names.items()]
    sections = sorted({name.rpartition(".")[0] for name in known.values} - {""})
    text = BASH.replace("@VALUES@", "\n".join(values)).replace("@NAMES@", "\n".join(names))
    text = text.replace("@GROUPS@", "|".join(c.path[0] for c in program.children if c.children))
    text = text.replace("@COMMANDS@", "\n".join(commands))
    return (f"# bash completion for tessera\n_tessera_keys='{' '.join(known.values)}'\n"
            f"_tessera_sections='{' '.join(sections)}'\n{text}")


# ---- zsh

ZSH = r"""
_tessera_keys() { compadd -- ${=_tessera_all_keys} }

_tessera_override() {
  if compset -P 1 '*='; then
    case ${IPREFIX%=} in
@VALUES@
    esac
  else
    compadd -S = -- ${=_tessera_all_keys}
  fi
}
"""


def zsh_text(text):
    return re.sub(r"([\\':\[\]])", lambda m: {"'": "'\\''"}.get(m.group(), "\\" + m.group()), text)


def zsh_action(kind):
    if kind.startswith("choice:"):
        return "(" + kind.removeprefix("choice:").replace(",", " ") + ")"
    return {"file": "_files", "none": " ", "key": "_tessera_keys", "override": "_tessera_override"}.get(kind, f"_tessera_{kind}")


def zsh_function(path):
    return "_".join(["_tessera_command", *path]).replace("-", "_")


def zsh_command(command):
    specs = []
    for name, value, text in command.options:
        after = f":{zsh_text(value.lower())}:{zsh_action(value_kind(name, value, text))}" if value else ""
        specs.append(f"'{name}[{zsh_text(text)}]{after}'")
    for kind in argument_kinds(command):
        specs.append(f"'{'*' if kind.endswith('*') else ''}:{kind.rstrip('*')}:{zsh_action(kind.rstrip('*'))}'")
    return "  _arguments " + " ".join(specs)


def zsh_group(command):
    listed = [f"    '{c.path[-1]}:{zsh_text(c.summary)}'" for c in command.children]
    cases = [f"    {c.path[-1]}) {zsh_function(c.path)} ;;" for c in command.children]
    return "\n".join(["  local -a commands=(", *listed, "    'help:help for a command'", "  )",
                      "  [[ ${words[2]} = help ]] && (( CURRENT > 2 )) && { shift words; (( CURRENT-- )) }",
                      "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
                      "  shift words; (( CURRENT-- ))", "  case ${words[1]} in", *cases, "  esac"])


def zsh_value(kind):
    if kind.startswith("choice:"):
        return "compadd -- " + kind.removeprefix("choice:").replace(",", " ")
    return zsh_action(kind)


def zsh(program, known):
    out = ["#compdef tessera", f"typeset -g _tessera_all_keys='{' '.join(known.values)}'"]
    for kind, names in known.names.items():
        out.append(f"_tessera_{kind}() {{ compadd -- {' '.join(names)}; _files }}")
    values = [f"      {name}) {zsh_value(kind)} ;;" for name, kind in known.values.items() if kind != "none"]
    out.append(ZSH.replace("@VALUES@", "\n".join(values)))
    for command in all_commands(program):
        body = zsh_group(command) if command.children else zsh_command(command)
        out.append(f"{zsh_function(command.path)}() {{\n{body}\n}}")
    return "\n".join([*out, '_tessera_command "$@"', ""])


# ---- fish

FISH = r"""
function __tessera_override
  set -l typed (commandline -ct)
  if string match -q '*=*' -- $typed
    switch (string split -m1 = -- $typed)[1]
@VALUES@
    end
  else
    printf '%s=\n' $__tessera_keys
  end
end
"""


def fish_text(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_choices(kind, known):
    """The choices of a kind, for the option -a; "" for files alone and for free text."""
    if kind.startswith("choice:"):
        return fish_text(kind.removeprefix("choice:").replace(",", " "))
    if kind in known.names:
        return fish_text(" ".join(known.names[kind]))
    return {"key": "'$__tessera_keys'", "override": "'(__tessera_override)'"}.get(kind, "")


def fish_command(command, seen, known):
    out = []
    for name, value, text in command.options:
        kind = value_kind(name, value, text)
        only = "" if not value else "-r " if kind == "file" or kind in known.names else "-x "
        offered = fish_choices(kind, known)
        dashes = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
        out.append(f"complete -c tessera -n '{seen}' {dashes} {only}{f'-a {offered} ' if offered else ''}-d {fish_text(text)}")
    kinds = [kind.rstrip("*") for kind in argument_kinds(command)]
    if not any(kind == "file" or kind in known.names for kind in kinds):
        out.append(f"complete -c tessera -f -n '{seen}'")
    out += [f"complete -c tessera -n '{seen}' -a {fish_choices(kind, known)}" for kind in kinds if fish_choices(kind, known)]
    return out


def fish(program, known):
    values = [f"      case {name}; printf '{name}=%s\\n' {kind.removeprefix('choice:').replace(',', ' ')}"
              for name, kind in known.values.items() if kind.startswith("choice:")]
    out = ["# fish completion for tessera", f"set -g __tessera_keys {' '.join(known.values)}",
           FISH.replace("@VALUES@", "\n".join(values))]
    for command in all_commands(program):
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in command.path) or "__fish_use_subcommand"
        if command.children:
            names = " ".join(c.path[-1] for c in command.children)
            here = f"{seen}; and not __fish_seen_subcommand_from {names}" if command.path else seen
            out += [f"complete -c tessera -f -n '{here}' -a {c.path[-1]} -d {fish_text(c.summary)}" for c in command.children]
        else:
            out += fish_command(command, seen, known)
    names = " ".join(c.path[-1] for c in program.children)
    out += [f"complete -c tessera -f -n __fish_use_subcommand -a help -d {fish_text('help for a command')}",
            f"complete -c tessera -f -n '__fish_seen_subcommand_from help; and not __fish_seen_subcommand_from {names}' -a '{names}'"]
    return "\n".join(out) + "\n"
