# shellcheck shell=bash disable=SC2154
# Images with the host's Open MPI: `load mpi` beside `load ../cli/common`.
#
#   mpi_image DIR           an image's root with a shell, Open MPI, its daemon, and tests/slurm/large.c as "large"
#   user_namespaces         how many the ranks of the last output were in
#   mount_namespaces
#   needs_slurm             in a test: skip it without a cluster

needs_slurm() { [ -n "$SLURM_CONF" ] || skip "no Slurm cluster here; root starts one by tests/slurm/lab.sh run"; }

user_namespaces() { grep -o 'user:[^ ]*' <<<"$output" | sort -u | wc -l; }
mount_namespaces() { grep -o 'mnt:[^ ]*' <<<"$output" | sort -u | wc -l; }

# What dlopen(3) finds at run time: components, and the libraries that they need.
mpi_image() {
	local dir=$1 lib

	tiny_root "$dir"
	mkdir -p "$dir"/{etc,usr/share,usr/lib/x86_64-linux-gnu}
	cp -a /etc/openmpi "$dir/etc"
	cp -a /usr/share/openmpi "$dir/usr/share"
	for lib in /usr/lib/*-linux-gnu/{openmpi,pmix2}; do
		mkdir -p "$dir$lib"
		cp -a "$lib/lib" "$dir$lib"
	done
	mpicc -O1 -o "$dir/bin/large" "$top_srcdir/tests/slurm/large.c"
	cp "$(command -v orted || command -v prted)" "$dir/usr/bin" # of version 4 or 5
	find "$dir"/bin/large "$dir"/usr/bin "$dir"/usr/lib/*-linux-gnu/{openmpi,pmix2} -type f \
		\( -name '*.so*' -o -name large -o -name '?r*ted' \) -print0 |
		xargs -0 ldd 2>/dev/null | grep -o '/[^ ):]*\.so[^ ):]*' | sort -u |
		while read -r lib; do
			case $lib in "$dir"*) continue ;; esac
			mkdir -p "$dir${lib%/*}"
			cp -L "$lib" "$dir$lib"
		done
}
