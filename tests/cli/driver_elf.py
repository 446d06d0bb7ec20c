"""Shared libraries written byte by byte (elf(5)), small and whole enough for readelf(1),
ldconfig(8) and, of this machine's kind, dlopen(3).

    shared_object(soname="libcuda.so.1", needed=["libc.so.6"], functions={"cuInit": 0})

A function is code that returns its number.
"""

import platform
import struct

EM_386, EM_X86_64, EM_AARCH64 = 3, 62, 183
SHT_PROGBITS, SHT_STRTAB, SHT_HASH, SHT_DYNAMIC, SHT_NOTE, SHT_DYNSYM = 1, 3, 5, 6, 7, 11
SHT_GNU_VERDEF, SHT_GNU_VERNEED, SHT_GNU_VERSYM = 0x6FFFFFFD, 0x6FFFFFFE, 0x6FFFFFFF
SHF_WRITE, SHF_ALLOC, SHF_EXECINSTR = 1, 2, 4
PT_LOAD, PT_DYNAMIC, PT_NOTE, PT_GNU_STACK = 1, 2, 4, 0x6474E551
DT_NEEDED, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_STRSZ, DT_SYMENT, DT_SONAME = 1, 4, 5, 6, 10, 11, 14
DT_VERSYM, DT_VERDEF, DT_VERDEFNUM = 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFD
DT_VERNEED, DT_VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF
PAGE = 0x10000  # the largest that a machine of these kinds has
# The oldest glibc that each kind of machine has had, as libraries built for all of them need it.
OLDEST_GLIBC = {EM_386: "GLIBC_2.0", EM_X86_64: "GLIBC_2.2.5", EM_AARCH64: "GLIBC_2.17"}


def this_machine(bits=64):
    kind = {"x86_64": EM_X86_64, "aarch64": EM_AARCH64}[platform.machine()]
    return EM_386 if bits == 32 and kind == EM_X86_64 else kind


def code_returning(machine, number):
    if machine == EM_AARCH64:
        return struct.pack("<II", 0x52800000 | (number & 0xFFFF) << 5, 0xD65F03C0)
    return b"\xb8" + struct.pack("<I", number) + b"\xc3"  # mov eax; ret


def elf_hash(name):
    h = 0
    for c in name.encode():
        h = (h << 4) + c
        h = (h ^ (h & 0xF0000000) >> 24) & 0x0FFFFFFF
    return h


def note(owner, kind, description):
    name = owner.encode() + b"\0"
    body = struct.pack("<III", len(name), len(description), kind)
    return body + name + b"\0" * (-len(name) % 4) + description + b"\0" * (-len(description) % 4)


def abi_tag(major, minor, patch):
    """The kernel that it needs at least: ".note.ABI-tag", for the argument notes."""
    return (".note.ABI-tag", note("GNU", 1, struct.pack("<IIII", 0, major, minor, patch)))


class Strings:
    def __init__(self):
        self.bytes = b"\0"
        self.known = {"": 0}

    def add(self, text):
        if text not in self.known:
            self.known[text] = len(self.bytes)
            self.bytes += text.encode() + b"\0"
        return self.known[text]


class Section:
    def __init__(self, name, kind, data, flags=SHF_ALLOC, link="", info=0, entsize=0, align=8):
        self.name, self.kind, self.data, self.flags = name, kind, data, flags
        self.link, self.info, self.entsize, self.align = link, info, entsize, align
        self.offset = self.address = 0


class Writer:
    def __init__(self, bits, machine):
        self.bits, self.machine = bits, machine
        self.header_size, self.phent, self.shent = (64, 56, 64) if bits == 64 else (52, 32, 40)
        self.sections = []
        self.names = Strings()

    def add(self, *args, **kw):
        self.sections.append(Section(*args, **kw))
        return self.sections[-1]

    def word(self, n):
        return struct.pack("<Q" if self.bits == 64 else "<I", n)

    def symbol(self, name, value, section):
        info = 0x12 if name else 0  # STB_GLOBAL, STT_FUNC
        size = 16 if name else 0
        if self.bits == 64:
            return struct.pack("<IBBHQQ", name, info, 0, section, value, size)
        return struct.pack("<IIIBBH", name, value, size, info, 0, section)

    def program_header(self, kind, flags, offset, address, size, align):
        if self.bits == 64:
            return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, size, size, align)
        return struct.pack("<IIIIIIII", kind, offset, address, address, size, size, flags, align)

    def section_header(self, s):
        link = self.index(s.link) if s.link else 0
        form = "<IIQQQQIIQQ" if self.bits == 64 else "<IIIIIIIIII"
        return struct.pack(form, self.names.add(s.name), s.kind, s.flags, s.address, s.offset,
                           len(s.data), link, s.info, s.align, s.entsize)

    def index(self, name):
        return [s.name for s in self.sections].index(name) + 1

    def place(self, n_program_headers):
        at = self.header_size + n_program_headers * self.phent
        for s in self.sections:
            at += -at % s.align
            s.offset = at
            s.address = at + (PAGE if s.flags & SHF_WRITE else 0) if s.flags & SHF_ALLOC else 0
            at += len(s.data)
        return at + -at % 8

    def header(self, n_program_headers, section_offset):
        ident = b"\x7fELF" + bytes([2 if self.bits == 64 else 1, 1, 1]) + b"\0" * 9
        form = "<HHIQQQIHHHHHH" if self.bits == 64 else "<HHIIIIIHHHHHH"
        return ident + struct.pack(form, 3, self.machine, 1, 0, self.header_size, section_offset, 0,
                                   self.header_size, self.phent, n_program_headers, self.shent,
                                   len(self.sections) + 1, len(self.sections))


def version_needs(strings, needs):
    """.gnu.version_r of {"libc.so.6": ["GLIBC_2.17"]}"""
    out, ndx = b"", 2
    for i, (file, versions) in enumerate(needs.items()):
        last = i == len(needs) - 1
        out += struct.pack("<HHIII", 1, len(versions), strings.add(file), 16,
                           0 if last else 16 + 16 * len(versions))
        for j, v in enumerate(versions):
            out += struct.pack("<IHHII", elf_hash(v), 0, ndx, strings.add(v),
                               0 if j == len(versions) - 1 else 16)
            ndx += 1
    return out


def version_definitions(strings, soname, versions):
    """.gnu.version_d: the file's own name, then what it defines, as libc.so.6 has them."""
    out = b""
    names = [soname] + versions
    for i, v in enumerate(names):
        out += struct.pack("<HHHHIII", 1, 1 if i == 0 else 0, i + 1, 1, elf_hash(v), 20,
                           0 if i == len(names) - 1 else 28)
        out += struct.pack("<II", strings.add(v), 0)
    return out


def dynamic(w, strings, soname, needed, n_needs, n_defines):
    at = {s.name: s.address for s in w.sections}
    tags = [(DT_NEEDED, strings.add(n)) for n in needed]
    if soname:
        tags.append((DT_SONAME, strings.add(soname)))
    tags += [(DT_HASH, at[".hash"]), (DT_STRTAB, at[".dynstr"]), (DT_SYMTAB, at[".dynsym"]),
             (DT_STRSZ, len(strings.bytes)), (DT_SYMENT, 24 if w.bits == 64 else 16)]
    if n_needs or n_defines:
        tags.append((DT_VERSYM, at[".gnu.version"]))
    if n_needs:
        tags += [(DT_VERNEED, at[".gnu.version_r"]), (DT_VERNEEDNUM, n_needs)]
    if n_defines:
        tags += [(DT_VERDEF, at[".gnu.version_d"]), (DT_VERDEFNUM, n_defines)]
    return b"".join(w.word(t) + w.word(v) for t, v in tags + [(0, 0)])


def shared_object(soname=None, needed=(), versions=None, functions=None, notes=(), defines=(),
                  bits=64, machine=None):
    """The file's bytes.

    needed     DT_NEEDED
    versions   {"libc.so.6": ["GLIBC_2.17"]}, of files that are in needed; None: libc's oldest
    functions  {"name": number}
    notes      (section, bytes of note()) pairs
    defines    versions that it defines itself
    """
    w = Writer(bits, machine or this_machine(bits))
    strings = Strings()
    functions = functions or {}
    if versions is None:
        versions = {"libc.so.6": [OLDEST_GLIBC[w.machine]]} if "libc.so.6" in needed else {}
    names = [strings.add(f) for f in functions]
    for text in list(needed) + [soname or ""]:
        strings.add(text)
    needs = version_needs(strings, versions)
    defined = version_definitions(strings, soname or "", list(defines)) if defines else b""
    count = len(functions) + 1

    chain = [0] + list(range(2, count)) + [0] if count > 1 else [0]
    w.add(".hash", SHT_HASH, struct.pack("<%dI" % (3 + count), 1, count, 1 if count > 1 else 0, *chain),
          link=".dynsym", entsize=4)
    symbols = w.add(".dynsym", SHT_DYNSYM, b"\0" * (24 if bits == 64 else 16) * count, link=".dynstr",
                    info=1, entsize=24 if bits == 64 else 16)
    w.add(".dynstr", SHT_STRTAB, strings.bytes, align=1)
    w.add(".gnu.version", SHT_GNU_VERSYM, struct.pack("<%dH" % count, *([0] + [1] * (count - 1))),
          link=".dynsym", entsize=2, align=2)
    if needs:
        w.add(".gnu.version_r", SHT_GNU_VERNEED, needs, link=".dynstr", info=len(versions))
    if defined:
        w.add(".gnu.version_d", SHT_GNU_VERDEF, defined, link=".dynstr", info=len(defines) + 1)
    noted = [w.add(name, SHT_NOTE, data, align=4) for name, data in notes]
    text = w.add(".text", SHT_PROGBITS, b"".join(code_returning(w.machine, n).ljust(16, b"\0")
                                               for n in functions.values()),
                 flags=SHF_ALLOC | SHF_EXECINSTR, align=16)
    # Addresses are known when sizes are: the dynamic section is placed with its size first.
    dyn = w.add(".dynamic", SHT_DYNAMIC, b"", flags=SHF_ALLOC | SHF_WRITE, link=".dynstr",
                entsize=16 if bits == 64 else 8)
    n_headers = 4 + len(noted)
    counts = (len(versions), len(defines) + 1 if defines else 0)
    dyn.data = dynamic(w, strings, soname, needed, *counts)
    w.names.add(".shstrtab")
    for s in w.sections:
        w.names.add(s.name)
    w.add(".shstrtab", SHT_STRTAB, w.names.bytes, flags=0, align=1)
    section_offset = w.place(n_headers)
    dyn.data = dynamic(w, strings, soname, needed, *counts)
    at = w.index(".text")
    symbols.data = w.symbol(0, 0, 0) + b"".join(
        w.symbol(name, text.address + 16 * i, at) for i, name in enumerate(names))

    headers = w.program_header(PT_LOAD, 5, 0, 0, dyn.offset, PAGE)
    headers += w.program_header(PT_LOAD, 6, dyn.offset, dyn.address, len(dyn.data), PAGE)
    headers += w.program_header(PT_DYNAMIC, 6, dyn.offset, dyn.address, len(dyn.data), 8)
    for s in noted:
        headers += w.program_header(PT_NOTE, 4, s.offset, s.address, len(s.data), 4)
    headers += w.program_header(PT_GNU_STACK, 6, 0, 0, 0, 16)
    out = w.header(n_headers, section_offset) + headers
    for s in w.sections:
        out = out.ljust(s.offset, b"\0") + s.data
    out = out.ljust(section_offset, b"\0") + b"\0" * w.shent
    return out + b"".join(w.section_header(s) for s in w.sections)
