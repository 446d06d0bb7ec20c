#!/usr/bin/env bats
# --mpi=host: the machine's MPI in place of the image's. Machines are made up: directories for MLRUN_MPI_ROOT with
# libraries of a few kilobytes; nothing is run, what mlrun exec would do is read from --explain.
# shellcheck disable=SC2016 # the inner shell expands

load common

TRIPLET=$(uname -m)-linux-gnu
SHELF=/usr/local/mlrun/mpi

setup() {
	common_setup
	unset LD_LIBRARY_PATH "${!OMPI_@}" "${!PMIX_@}" "${!PMI_@}" OPAL_PREFIX
	cd "$BATS_TEST_TMPDIR"
	mkdir machine
	export MLRUN_MPI_ROOT=$PWD/machine MLRUN_CONFIG=$PWD/mlrun.conf
	: >mlrun.conf
}

# library FILE [OPTION...], as tests/cli/driver-tree --library takes them; its SONAME is FILE's number's.
library() {
	local file=$1 name

	shift
	mkdir -p "${file%/*}"
	name=$(sed -E 's/(\.so\.[0-9]+).*/\1/' <<<"${file##*/}")
	"$top_srcdir/tests/cli/driver-tree" --library "$file" --soname="$name" "$@" || fail "driver-tree --library $file"
	[ -e "${file%/*}/$name" ] || ln -s "${file##*/}" "${file%/*}/$name"
}

# An image's root with glibc 2.36, or the version named.
image() {
	mkdir -p image/tmp
	library "image/lib/$TRIPLET/libc.so.6" --defines="2.17,${1:-2.36}"
}

# A machine with an Open MPI of its own prefix, whose mpirun is on PATH.
open_mpi() {
	local prefix=machine$1

	library "$prefix/lib/libmpi.so.40.30.4" --needs=libopen-pal.so.40,libhwloc.so.15 --glibc=2.34
	library "$prefix/lib/libmpi_mpifh.so.40.30.0" --needs=libmpi.so.40
	library "$prefix/lib/libopen-pal.so.40.30.2"
	library "$prefix/lib/openmpi/mca_btl_vader.so" --needs=libxpmem.so.0
	library "machine/usr/lib/$TRIPLET/libhwloc.so.15.6.1"
	library "machine/usr/lib/$TRIPLET/libxpmem.so.0.0.0"
	mkdir -p "$prefix"/{bin,share/openmpi,etc}
	touch "$prefix"/{bin/mpirun,etc/openmpi-mca-params.conf}
	chmod +x "$prefix/bin/mpirun"
	export PATH=$PATH:$1/bin
}

explain() { mlrun exec --explain "$@" rootfs:image true; }

@test "mpi host: Open MPI comes with its siblings, components and data, found by mpirun on PATH" {
	image
	library "image/opt/openmpi/lib/libmpi.so.40.20.1"
	library "image/opt/openmpi/lib/libopen-pal.so.40.20.1"
	open_mpi /sw/openmpi
	run -0 explain --mpi=host
	m=$MLRUN_MPI_ROOT/sw/openmpi
	for line in "bind     $m/lib/libmpi.so.40.30.4 -> $SHELF/libmpi.so.40 ro" \
		"bind     $m/lib/libmpi_mpifh.so.40.30.0 -> $SHELF/libmpi_mpifh.so.40 ro" \
		"bind     $m/lib/openmpi -> /sw/openmpi/lib/openmpi ro" \
		"bind     $m/share/openmpi -> /sw/openmpi/share/openmpi ro" \
		"bind     $m/etc/openmpi-mca-params.conf -> /sw/openmpi/etc/openmpi-mca-params.conf ro" \
		"bind     $MLRUN_MPI_ROOT/usr/lib/$TRIPLET/libhwloc.so.15.6.1 -> $SHELF/libhwloc.so.15 ro" \
		"bind     $MLRUN_MPI_ROOT/usr/lib/$TRIPLET/libxpmem.so.0.0.0 -> $SHELF/libxpmem.so.0 ro" \
		"bind     $m/lib/libmpi.so.40.30.4 -> /opt/openmpi/lib/libmpi.so.40 ro" \
		"bind     $m/lib/libopen-pal.so.40.30.2 -> /opt/openmpi/lib/libopen-pal.so.40 ro" \
		"file     /etc/ld.so.cache" "LD_LIBRARY_PATH=$SHELF" \
		"this machine's Open MPI ('/sw/openmpi/lib/libmpi.so.40', libmpi.so.40.30.4) is used instead of the image's libmpi.so.40.20.1" \
		"'/sw/openmpi/lib/libmpi.so.40.30.4' replaces the image's '/opt/openmpi/lib/libmpi.so.40' (libmpi.so.40.20.1)" \
		"library of this machine that MPI needs and the image lacks: libhwloc.so.15"; do
		assert_line --partial "  mpi      $line"
	done
	# All of MPI has this origin.
	refute_line --regexp '^  (gpu|default|image) .*mpi'
}

@test "mpi host: an image's MPI beside a directory of its PATH is found and covered" {
	image
	library image/opt/env/lib/libmpi.so.40.20.1
	open_mpi /sw/openmpi
	run -0 explain --mpi=host
	refute_output --partial "-> /opt/env/lib"
	run -0 explain --mpi=host -e PATH=/opt/env/bin:/usr/bin
	assert_output --partial "-> /opt/env/lib/libmpi.so.40 ro"
}

@test "mpi host: a dependency comes if the image lacks it or has an older one" {
	image
	open_mpi /sw/openmpi
	library "image/usr/lib/$TRIPLET/libhwloc.so.15.5.0"
	run -0 explain --mpi=host
	assert_output --partial "library of this machine that MPI needs and are newer than the image's: libhwloc.so.15"
	assert_output --partial "-> $SHELF/libhwloc.so.15 ro"
	rm image/usr/lib/"$TRIPLET"/libhwloc*
	library "image/usr/lib/$TRIPLET/libhwloc.so.15.6.1"
	run -0 explain --mpi=host
	refute_output --partial libhwloc
}

@test "mpi host: MPICH's relatives stand for each other, by each other's names" {
	image
	library image/usr/lib/libmpich.so.12.1.8
	library image/usr/lib/libmpichfort.so.12.1.8
	library machine/opt/cray/lib/libmpi_gnu_91.so.12.0.0 --needs=libfabric.so.1
	library machine/opt/cray/lib/libmpifort.so.12.0.0
	library "machine/usr/lib64/libfabric.so.1.15.0" --needs=libcxi.so.1
	library "machine/usr/lib64/libcxi.so.1.5.0"
	library "machine/usr/lib64/libfabric/libcxi-fi.so"
	echo $'[mpi]\nlibraries = /opt/cray/lib' >mlrun.conf
	run -0 explain --mpi=host
	m=$MLRUN_MPI_ROOT/opt/cray/lib
	for line in "bind     $m/libmpi_gnu_91.so.12.0.0 -> $SHELF/libmpi_gnu_91.so.12 ro" \
		"symlink  libmpi_gnu_91.so.12 -> $SHELF/libmpi.so.12" "symlink  libmpi_gnu_91.so.12 -> $SHELF/libmpich.so.12" \
		"symlink  libmpifort.so.12 -> $SHELF/libmpichfort.so.12" \
		"bind     $m/libmpi_gnu_91.so.12.0.0 -> /usr/lib/libmpich.so.12 ro" \
		"bind     $m/libmpifort.so.12.0.0 -> /usr/lib/libmpichfort.so.12 ro" \
		"bind     $MLRUN_MPI_ROOT/usr/lib64/libcxi.so.1.5.0 -> $SHELF/libcxi.so.1 ro" \
		"bind     $MLRUN_MPI_ROOT/usr/lib64/libfabric -> /usr/lib64/libfabric ro"; do
		assert_line --partial "  mpi      $line"
	done
}

@test "mpi host: only the files that [mpi] libraries names come, and what they need" {
	image
	open_mpi /sw/openmpi
	echo $'[mpi]\nlibraries = /sw/openmpi/lib/libmpi.so.40' >mlrun.conf
	run -0 explain --mpi=host
	assert_output --partial "-> $SHELF/libopen-pal.so.40 ro"
	refute_output --partial mpifh
}

@test "mpi host: LD_LIBRARY_PATH and the linker's cache lead to it, too" {
	image
	library machine/sw/mpich/lib/libmpi.so.12.1.8
	LD_LIBRARY_PATH=/sw/mpich/lib run -0 explain --mpi=host
	assert_output --partial "this machine's MPICH or a relative of it ('/sw/mpich/lib/libmpi.so.12', libmpi.so.12.1.8) is used: the image has none"
	mkdir -p machine/etc
	echo /sw/mpich/lib >machine/etc/ld.so.conf
	ldconfig -r "$PWD/machine"
	run -0 explain --mpi=host
	assert_output --partial "('/sw/mpich/lib/libmpi.so.12', libmpi.so.12.1.8)"
}

@test "mpi host: of two on the machine, the one of the image's family is taken" {
	image
	library image/usr/lib/libmpi.so.12.1.8
	open_mpi /sw/openmpi
	library "machine/usr/lib/$TRIPLET/libmpich.so.12.2.2"
	run -0 explain --mpi=host
	assert_output --partial "libmpich.so.12.2.2 -> $SHELF/libmpich.so.12"
	refute_output --partial openmpi
}

@test "mpi host: another family is refused, with both and ways out" {
	image
	library image/usr/lib/libmpi.so.12.1.8
	open_mpi /sw/openmpi
	run -125 explain --mpi=host
	assert_output --partial "--mpi=host: the image has MPICH or a relative of it (libmpi.so.12), this machine Open MPI ('/sw/openmpi/lib/libmpi.so.40'): programs of one do not run with the other"
	assert_line --partial "hint: "
	assert_line --partial "--mpi=auto takes the image's own MPI"
	# Open MPI 1.10 has MPICH's number.
	library image/usr/lib/libopen-pal.so.13.0.0
	run -125 explain --mpi=host
	assert_output --partial "the image has Open MPI (libmpi.so.12), this machine Open MPI"
}

@test "mpi host: levels compare the second number" {
	image
	open_mpi /sw/openmpi
	# image's number, level, whether it is taken
	while read -r number level status; do
		rm -f image/usr/lib/libmpi*
		library "image/usr/lib/libmpi.so.40.$number.0"
		run "-$status" explain --mpi="$level"
		[ "$status" = 0 ] || assert_output --partial "the image's libmpi.so.40.$number and this machine's libmpi.so.40.30.4 are not"
	done <<-END
		20 host 0
		20 host:full 0
		20 host:strict 125
		30 host:strict 0
		40 host 0
		40 host:major 0
		40 host:full 125
	END
	echo $'[mpi]\ncompatibility = strict' >mlrun.conf
	run -125 explain --mpi=host
	assert_output --partial "hint: --mpi=host:major asks for the same SONAME only"
	run -0 explain --mpi=host:major
}

@test "mpi host: a library or module that is too new for the image's glibc is refused, with the versions" {
	image 2.31
	open_mpi /sw/openmpi
	run -125 explain --mpi=host
	assert_output --partial "--mpi=host: this machine's '/sw/openmpi/lib/libmpi.so.40.30.4' needs GLIBC_2.34, and the image's C library '/lib/$TRIPLET/libc.so.6' is 2.31"
	assert_line --partial "hint: an image of a newer distribution"
	image 2.34
	run -0 explain --mpi=host
	library machine/sw/openmpi/lib/openmpi/mca_new.so --glibc=2.35
	run -125 explain --mpi=host
	assert_output --partial "/sw/openmpi/lib/openmpi/mca_new.so' needs GLIBC_2.35"
	rm machine/sw/openmpi/lib/openmpi/mca_new.so
	# A dependency that the image has need not come, however new it is.
	library "machine/usr/lib/$TRIPLET/libhwloc.so.15.6.1" --glibc=2.38
	run -125 explain --mpi=host
	assert_output --partial "libhwloc.so.15.6.1' needs GLIBC_2.38"
	library "image/usr/lib/$TRIPLET/libhwloc.so.15.7.0"
	run -0 explain --mpi=host
}

@test "mpi host: images with musl, or without a C library, are refused" {
	open_mpi /sw/openmpi
	mkdir -p image/lib
	run -125 explain --mpi=host
	assert_output --partial "the image has no C library, and this machine's MPI needs glibc"
	touch "image/lib/ld-musl-$(uname -m).so.1"
	run -125 explain --mpi=host
	assert_output --partial "the image has musl as its C library"
}

@test "mpi host: a machine without MPI is an error, but not if only the image asks" {
	image
	run -125 explain --mpi=host
	assert_output --partial "--mpi=host: this machine has no MPI that mpirun on PATH, LD_LIBRARY_PATH or the linker's cache leads to"
	assert_line --partial "hint: load its module first"
	echo $'[mpi]\nlibraries = /sw/none' >mlrun.conf
	run -125 explain --mpi=host
	assert_output --partial "no MPI library in '/sw/none', where [mpi] libraries points"
}

@test "mpi host: [exec] mpi and MLRUN_MPI ask for it as well, and --mpi=auto wins" {
	image
	open_mpi /sw/openmpi
	MLRUN_MPI=host run -0 explain
	assert_output --partial "$SHELF/libmpi.so.40"
	echo $'[exec]\nmpi = host:full' >mlrun.conf
	run -0 explain
	assert_output --partial "$SHELF/libmpi.so.40"
	run -0 explain --mpi=auto
	refute_output --partial libmpi
	run -125 explain --mpi=host:near
	assert_output --partial "--mpi takes auto, none, host, host:major, host:full or host:strict, not 'host:near'"
	echo $'[mpi]\ncompatibility = near' >mlrun.conf
	run -125 explain
	assert_output --partial "mlrun.conf:2: 'near' is invalid: use one of major, full, strict"
}

@test "mpi host: an image's label asks for it, and takes what there is" {
	mkdir -p layer/lib
	library "layer/lib/$TRIPLET/libc.so.6" --defines=2.17,2.36
	layer_tar layer.tar layer
	image_layout labelled.oci layer.tar
	image_config labelled.oci --config.label org.mlrun.mpi=host --config.env OPAL_PREFIX=/opt/image --config.env LD_LIBRARY_PATH=/opt/image/lib
	mlrun pull -q oci:labelled.oci:latest
	run -0 mlrun exec --explain labelled true
	assert_output --partial "the image asks for the machine's MPI, and this machine has none"
	open_mpi /sw/openmpi
	run -0 mlrun exec --explain labelled true
	assert_output --partial "$SHELF/libopen-pal.so.40"
	# What the image says about its own MPI is left out.
	refute_line --partial "OPAL_PREFIX=/opt/image"
	assert_line --partial "LD_LIBRARY_PATH=$SHELF:/opt/image/lib"
}

@test "mpi host: tasks of srun without PMI are told so once" {
	image
	open_mpi /sw/openmpi
	export SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4
	for rank in 0 1; do
		SLURM_PROCID=$rank run --separate-stderr -0 explain --mpi=host
		assert_equal "$(grep -c "srun started these 4 tasks without PMI, so they cannot find each other: srun --mpi=pmix does" <<<"$output$stderr")" $((1 - rank))
	done
	SLURM_PROCID=0 PMIX_RANK=0 run --separate-stderr -0 explain --mpi=host
	refute_output --partial "tasks without PMI"
	SLURM_PROCID=0 run --separate-stderr -0 explain
	refute_output --partial "tasks without PMI"
}

@test "mpi: ranks find PMIx 5's files, or are sent what is in them" {
	local dir
	dir=$TMPDIR/spmix_appdir_$(id -u)_7.0
	image
	export PMIX_RANK=0 PMIX_GDS_MODULE=shmem2,hash SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PMIX_TMPDIR=$TMPDIR
	run -0 explain
	assert_line --regexp '^ +mpi +PMIX_GDS_MODULE=hash( |$)'
	mkdir "$dir"
	run -0 explain
	assert_line --regexp '^ +caller +PMIX_GDS_MODULE=shmem2,hash$'
	# Not below /tmp, which is there anyway.
	SLURM_PMIX_TMPDIR=$(mktemp -d /var/tmp/mlrun-pmix.XXXXXX)
	mkdir "$SLURM_PMIX_TMPDIR/${dir##*/}"
	run -0 explain
	assert_line --regexp "^ +mpi +bind +$SLURM_PMIX_TMPDIR/${dir##*/}"
	rm -r "$SLURM_PMIX_TMPDIR"
}

@test "mpi: ranks get the network's and shared memory's devices, others do not" {
	image
	mkdir -p machine/dev/{infiniband,hugepages}
	touch machine/dev/{infiniband/uverbs0,cxi0,cxi1,hfi1_0,xpmem,knem,sda,kfd}
	run -0 explain
	refute_output --partial machine/dev
	PMIX_RANK=0 run -0 explain
	for name in infiniband cxi0 cxi1 hfi1_0 xpmem knem; do
		assert_line --partial "  mpi      bind     $MLRUN_MPI_ROOT/dev/$name -> /dev/$name ro nosuid noexec"
	done
	# Nothing else, and no directory without huge pages in it.
	assert_equal "$(grep -c machine/dev <<<"$output")" 6
	rm -r machine/dev
	PMIX_RANK=0 run -0 explain
	refute_output --partial machine/dev
}
