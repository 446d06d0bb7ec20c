# Copyright the authors of mlrun.
#
# SPDX-License-Identifier: Apache-2.0

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Mlrun(AutotoolsPackage):
    """Pulls, builds and runs container images on HPC nodes and workstations without root. Its trainer
    for convolutional networks, mltrain, comes with it."""

    # There is no public place of the releases yet: put mlrun-VERSION.tar.xz into a mirror or beside
    # the command, and install with `spack install --no-checksum mlrun`.
    url = "file:///srv/mlrun/mlrun-0.2.0.tar.xz"

    license("Apache-2.0")

    version("0.2.0")

    variant("isal", default=True, description="Unpack gzip with ISA-L, twice as fast")
    variant("squashfuse", default=True, description="Run squashfs images through FUSE")
    variant("seccomp", default=True, description="Compile seccomp profiles")
    variant("onednn", default=True, description="mltrain's fast backend for CPUs")
    variant("pictures", default=True, description="mltrain reads PNG and JPEG")
    variant("serve", default=True, description="mltrain serve")
    variant("mpi", default=False, description="mltrain on many ranks, with Open MPI")
    variant("cuda", default=False, description="mltrain on NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("curl@7.85:")
    depends_on("libinih")
    depends_on("jansson@2.13:")
    depends_on("libarchive@3.6:")
    depends_on("libmd")
    depends_on("libpsl")
    depends_on("libyaml")
    depends_on("openssl@3:")
    depends_on("zlib-api")
    depends_on("zstd@1.4:")

    depends_on("isa-l", when="+isal")
    depends_on("squashfuse", when="+squashfuse")
    depends_on("libfuse@3.12:", when="+squashfuse")
    depends_on("libseccomp@2.5:", when="+seccomp")
    depends_on("onednn", when="+onednn")
    depends_on("libpng@1.6:", when="+pictures")
    depends_on("jpeg", when="+pictures")
    depends_on("libmicrohttpd", when="+serve")
    depends_on("hiredis", when="+serve")
    depends_on("openmpi@4:", when="+mpi")
    depends_on("cuda", when="+cuda")
    depends_on("cudnn", when="+cuda")
    depends_on("nccl", when="+cuda")

    def configure_args(self):
        args = ["--without-squashfs"]  # Spack has no squashfs-tools-ng
        for name in ("isal", "squashfuse", "seccomp", "onednn", "serve", "mpi"):
            args += self.with_or_without(name)
        args += self.with_or_without("png", variant="pictures")
        args += self.with_or_without("jpeg", variant="pictures")
        args += self.with_or_without("cuda", activation_value="prefix")
        args.append("--without-slurm")  # a plugin fits one Slurm, that of the site
        return args
