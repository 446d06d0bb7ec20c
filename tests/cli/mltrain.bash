# What the tests of mltrain share: a small cut of Debian's Fashion-MNIST.

bats_require_minimum_version 1.5.0
data=/usr/share/datasets/fashion-mnist

# cut_idx NAME HEADER-BYTES ITEM-BYTES COUNT [DIR]: the first items of a file, under a header that says so, in $SMALL
# unless DIR says otherwise
cut_idx() {
    {
        zcat "$data/$1.gz" | head -c 4
        printf "\\x$(printf %02x $(($4 >> 24)))\\x$(printf %02x $(($4 >> 16 & 255)))"
        printf "\\x$(printf %02x $(($4 >> 8 & 255)))\\x$(printf %02x $(($4 & 255)))"
        zcat "$data/$1.gz" | tail -c +9 | head -c $(($2 - 8 + $3 * $4))
    } > "${5:-$SMALL}/$1"
}

# Set $mltrain, and make $SMALL: 1200 images to train with, 300 to test, and tiny.json, a net for tests to which
# any net will do, a thousandth of the reference net's work.
mltrain_setup() {
    export mltrain="$top_builddir/bin/mltrain" SMALL="$BATS_FILE_TMPDIR/small"
    [ -e "$data" ] || return 0
    mkdir "$SMALL"
    cut_idx train-images-idx3-ubyte 16 784 1200
    cut_idx train-labels-idx1-ubyte 8 1 1200
    cut_idx t10k-images-idx3-ubyte 16 784 300
    cut_idx t10k-labels-idx1-ubyte 8 1 300
    cat > "$SMALL/tiny.json" <<-'END'
	{"layers": [{"kind": "maxpool", "size": 4}, {"kind": "dense", "outputs": "classes"}],
	 "train": {"epochs": 10, "batch": 64, "lr": 0.01, "momentum": 0.9, "l2": 0,
	           "schedule": {"kind": "exponential", "decay": 0.95}}}
	END
}

needs_data() {
    [ -e "$data" ] || skip "Debian's package dataset-fashion-mnist is not installed"
}

# wait_lines FILE COUNT PID: until a file has so many lines, or the process that writes them has ended.
wait_lines() {
    for _ in $(seq 2400); do
        [ -e "$1" ] && [ "$(wc -l < "$1")" -ge "$2" ] && return 0
        kill -0 "$3" 2> /dev/null || return 0
        sleep 0.05
    done
    echo "no $2 lines in $1" >&2
    return 1
}

# wait_records LOG EVENT COUNT: of the load there are records at any time, so lines alone tell nothing.
wait_records() {
    for _ in $(seq 2400); do
        [[ $(grep -cs "\"event\":\"$2\"" "$1") -ge $3 ]] && return 0
        sleep 0.05
    done
    echo "no $3 records of $2 in $1" >&2
    return 1
}

# The steps' losses in a log, a line each; what was logged twice by a run that was killed counts once.
losses() {
    jq -c 'select(.event == "step") | [.step, .loss]' "$1" | sort -t '[' -k 2n -u
}
