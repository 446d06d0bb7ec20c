#!/usr/bin/env bats
# --mpi=host for real: images whose own MPI works nowhere run with this machine's, Debian's Open MPI or MPICH, under
# mpirun and under srun. The library of the image is tests/slurm/stub.c.

load ../cli/common
load mpi

setup_file() {
	command -v mpicc mpirun >/dev/null || { skip_file "no MPI is installed"; return; }
	[ "$(id -u)" != 0 ] || { skip_file "mpirun is for ordinary users"; return; }
}

setup() {
	common_setup
	export SLURM_CONF=${TEST_SLURM_CONF:-}
	export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
	export TMPDIR=/tmp
	cd "$BATS_TEST_TMPDIR"
}

# stub_image DIR COMPILER SONAME: a root with glibc, "large" and a library for it that is good for nothing.
stub_image() {
	local dir=$1 lib

	tiny_root "$dir"
	mkdir -p "$dir/usr/lib/mpi"
	"$2" -O1 -o "$dir/bin/large" "$top_srcdir/tests/slurm/large.c"
	for lib in libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 libutil.so.1 libresolv.so.2; do
		lib=$(ldconfig -p | sed -n "s/.*\t$lib (.*x86-64.*=> //p;s/.*\t$lib (.*AArch64.*=> //p" | head -n1)
		mkdir -p "$dir${lib%/*}"
		cp -L "$lib" "$dir$lib"
	done
	lib=$(ldd "$dir/bin/large" | grep -o '/lib[^ ]*/ld-linux[^ ]*')
	mkdir -p "$dir${lib%/*}"
	cp -L "$lib" "$dir$lib"
	cc -shared -fPIC -Wl,-soname,"$3" -o "$dir/usr/lib/mpi/$3" "$top_srcdir/tests/slurm/stub.c"
	echo /usr/lib/mpi >"$dir/etc/ld.so.conf"
	ldconfig -r "$dir"
	IMG=rootfs:$dir
}

open_mpi_image() {
	command -v mpicc.openmpi ompi_info >/dev/null || skip "Open MPI is not installed"
	PATH=$(alone openmpi):$PATH
	stub_image "$BATS_TEST_TMPDIR/root" mpicc.openmpi libmpi.so.40
}

mpich_image() {
	command -v mpicc.mpich mpirun.mpich >/dev/null || skip "MPICH is not installed"
	PATH=$(alone mpich):$PATH
	stub_image "$BATS_TEST_TMPDIR/root" mpicc.mpich libmpich.so.12
}

# A directory for PATH in which mpirun is that of one MPI, as after loading a module.
alone() {
	mkdir -p bin
	ln -sf "$(command -v "mpirun.$1")" bin/mpirun
	echo "$PWD/bin"
}

@test "mpi host: without it the image's library is used" {
	open_mpi_image
	run mpirun -np 2 mlrun exec "$IMG" large
	assert_line "the image's MPI"
	refute_output --partial "large messages passed"
}

@test "mpi host: this machine's Open MPI passes large messages between mpirun's ranks in one container" {
	open_mpi_image
	run -0 timeout 300 mpirun -np 4 mlrun exec --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 4 ranks"
	refute_output --partial "the image's MPI"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
	# Its RPATH leads past LD_LIBRARY_PATH to the image's library.
	mpicc.openmpi -Wl,--disable-new-dtags,-rpath,/usr/lib/mpi -o root/bin/large "$top_srcdir/tests/slurm/large.c"
	run -0 timeout 300 mpirun -np 2 mlrun exec --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 2 ranks"
	# And so does a script that sets the variable anew.
	run -0 timeout 300 mpirun -np 2 mlrun exec --mpi=host "$IMG" sh -c 'unset LD_LIBRARY_PATH; exec large'
	assert_output --partial "large messages passed with 2 ranks"
}

@test "mpi host: a program alone, without a launcher, starts too" {
	open_mpi_image
	run -0 timeout 300 mlrun exec --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 1 ranks"
}

@test "mpi host: the root may be read-only" {
	open_mpi_image
	run -0 timeout 300 mpirun -np 2 mlrun exec --read-only --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 2 ranks"
}

@test "mpi host: this machine's MPICH passes large messages between mpirun.mpich's ranks in one container" {
	mpich_image
	run mpirun.mpich -np 2 mlrun exec "$IMG" large
	assert_line "the image's MPI"
	run -0 timeout 300 mpirun.mpich -np 4 mlrun exec --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 4 ranks"
	assert_equal "$(user_namespaces) $(mount_namespaces)" "1 1"
}

@test "mpi host: a program of MPICH's relatives, by their library's name, runs with this machine's MPICH" {
	mpich_image
	# As MPICH itself, Intel MPI and Cray MPICH call it.
	cc -shared -fPIC -Wl,-soname,libmpi.so.12 -o root/usr/lib/mpi/libmpi.so.12 "$top_srcdir/tests/slurm/stub.c"
	rm root/usr/lib/mpi/libmpich.so.12
	cc -I"$(mpicc.mpich -show | grep -o '[-]I[^ ]*' | head -n1 | cut -c3-)" -o root/bin/large "$top_srcdir/tests/slurm/large.c" \
		root/usr/lib/mpi/libmpi.so.12
	run -0 timeout 300 mpirun.mpich -np 2 mlrun exec --mpi=host "$IMG" large
	assert_output --partial "large messages passed with 2 ranks"
}

@test "mpi host: this machine's Open MPI under srun --mpi=pmix, on one node and on two" {
	needs_slurm
	open_mpi_image
	for where in "-N1 -n4" "-N2 -n4"; do
		# shellcheck disable=SC2086 # two words
		run -0 timeout 300 srun --quiet --mpi=pmix $where --overcommit mlrun exec --mpi=host "$IMG" large
		assert_output --partial "large messages passed with 4 ranks"
		refute_output --partial "PMIX ERROR"
		assert_equal "$(user_namespaces)" "${where:2:1}"
	done
}

@test "mpi host: this machine's MPICH under srun --mpi=pmi2, on one node and on two" {
	needs_slurm
	mpich_image
	# The nodes of the lab are one machine for UCX, which would use its memory from one container to the other.
	for where in "-N1 -n2" "-N2 -n2"; do
		[[ $where != -N2* ]] || export UCX_TLS=tcp,self
		# shellcheck disable=SC2086 # two words
		run -0 timeout 300 srun --quiet --mpi=pmi2 $where --overcommit mlrun exec --mpi=host "$IMG" large
		assert_output --partial "large messages passed with 2 ranks"
	done
}

@test "mpi host: MPICH of the image's own runs in one container, and with --mpi=none in one each" {
	mpich_image
	rm -r root/usr/lib/mpi root/etc/ld.so.*
	{
		echo "/usr/lib/$(uname -m)-linux-gnu/ucx"
		find "/usr/lib/$(uname -m)-linux-gnu/ucx" -name '*.so*' -print0 | xargs -0 ldd root/bin/large 2>/dev/null |
			grep -o '/[^ ):]*\.so[^ ):]*'
	} | sort -u | while read -r lib; do
		case $lib in root/*) continue ;; esac
		mkdir -p "root${lib%/*}"
		[ -e "root$lib" ] || cp -rL "$lib" "root$lib"
	done
	for mpi in auto none; do
		run -0 timeout 300 mpirun.mpich -np 2 mlrun exec --mpi=$mpi "$IMG" large
		assert_output --partial "large messages passed with 2 ranks"
		[ $mpi = auto ] && assert_equal "$(user_namespaces)" 1 || assert_equal "$(user_namespaces)" 2
	done
}
