"""Runs Python in which lines begin with !, as IPython does: `python3 -c CELL code TEXT`, `python3 -c CELL script FILE`.

cdsw.launch_workers sends this file to its workers as CELL, so it imports nothing but the standard library.
"""
import io
import linecache
import os
import re
import socket
import string
import subprocess
import sys
import tokenize
import types

# "!ls", "files = !ls", and "!!ls", which is a list of lines too.
_BANG = re.compile(r"^(\s*)((?:[\w.,\[\]'\" ]+=)?)\s*!(!?)\s*(.*)$")
_DOLLAR = re.compile(r"\$(\$?)([A-Za-z_][\w.]*)")


def address(towards):
    """The address of this machine on its way to another one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        try:
            way.connect((towards, 9))
            return way.getsockname()[0]
        except OSError:
            return "127.0.0.1"


def _dollar(names):
    def value(found):
        try:
            return found[0][1:] if found[1] else str(eval(found[2], names))
        except Exception:  # a variable of the shell's
            return found[0]
    return value


def expand(command, names):
    """A command with {expression} and $name of Python's in it; as it is if one of the expressions has no value."""
    words = []
    try:
        for text, field, form, conversion in string.Formatter().parse(command):
            words.append(_DOLLAR.sub(_dollar(names), text))
            if field is not None:
                value = string.Formatter().convert_field(eval(field, names), conversion)
                words.append(format(value, form))
    except Exception:
        return command
    return "".join(words)


def shell(command, names, lines=False):
    """Run a command. Its exit status is $_exit_code for Python, and no error."""
    command = expand(command, names)
    sys.stdout.flush()
    if not lines:
        return subprocess.call(command, shell=True), None
    done = subprocess.run(command, shell=True, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def _within_string(text):
    try:
        list(tokenize.generate_tokens(io.StringIO(text).readline))
    except tokenize.TokenError as e:
        return "string" in str(e)
    except SyntaxError:
        pass
    return False


def python(text):
    """A text without lines that begin with !, of the same number of lines."""
    try:
        compile(text, "", "exec")
        return text
    except SyntaxError:
        pass
    out, lines = [], text.split("\n")
    while lines:
        line = lines.pop(0)
        found = _BANG.match(line)
        if not found or _within_string("\n".join([*out, ""])):
            out.append(line)
            continue
        command, more = found[4], 0
        while command.endswith("\\") and lines:
            command, more = command[:-1] + lines.pop(0).strip(), more + 1
        wants = bool(found[2].strip() or found[3])
        call = f"_cdsw_shell({command!r}, {{**globals(), **locals()}}, {wants})"
        line = f"{found[1]}_exit_code, _cdsw_lines = {call}"
        if wants:
            line += f"; {found[2].strip() or '_ ='} _cdsw_lines"
        out += [line] + [""] * more
    return "\n".join(out)


def run(text, name, arguments=()):
    """Run a text as the program, which name is shown for. Its exceptions and exits are the caller's."""
    main = types.ModuleType("__main__")
    main.__dict__.update({"_cdsw_shell": shell, "__builtins__": __builtins__})
    if os.path.exists(name):
        main.__file__ = name
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    sys.modules["__main__"] = main
    sys.argv = [name, *arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(name)) if os.path.exists(name) else ""
    exec(compile(python(text), name, "exec"), main.__dict__)


def run_file(path, arguments=()):
    """Run a script."""
    with tokenize.open(path) as script:
        text = script.read()
    run(text, path, arguments)


if __name__ == "__main__":
    os.environ["CDSW_IP_ADDRESS"] = address(os.environ.get("CDSW_MASTER_IP", "127.0.0.1"))  # not the session's
    if sys.argv[1] == "script":
        run_file(sys.argv[2])
    else:
        run(sys.argv[2], "<code>")
