#!/usr/bin/env bats
# mltrain's backend for GPUs, as it behaves on machines without one.

setup_file() {
    export mltrain="$top_builddir/bin/mltrain" plugin="$top_builddir/bin/mltrain-cuda.so" DATA="$BATS_FILE_TMPDIR/data"
    mkdir "$DATA"
    for part in train t10k; do
        { printf '\0\0\x08\x03\0\0\0\x40\0\0\0\x0c\0\0\0\x0c'; head -c 9216 /dev/zero; } > "$DATA/$part-images-idx3-ubyte"
        { printf '\0\0\x08\x01\0\0\0\x40'; head -c 32 /dev/zero; head -c 32 /dev/zero | tr '\0' '\1'; } \
            > "$DATA/$part-labels-idx1-ubyte"
    done
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

train() {
    run "$mltrain" train --data "$DATA" --validation 0 --batch 32 --epochs 1 --quiet "$@"
}

needs_no_device() {
    [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ] || skip "this machine has a GPU: tests/gpu/trainer tests it"
}

needs_plugin() {
    [ -e "$plugin" ] || skip "mltrain-cuda.so was not built: configure found no nvcc, cuDNN or NCCL"
}

@test "cuda: without the plugin the backend says that it is not installed" {
    mkdir none
    export MLTRAIN_PLUGINS="$PWD/none"
    train --backend cuda
    [ "$status" -eq 1 ]
    [[ "$output" == *"mltrain-cuda.so"*$'\n'"hint: "* ]]
    [[ "$("$mltrain" --version)" != *"backends: cuda"* ]]
}

@test "cuda: without a driver, auto computes on the CPU and does not open the plugin" {
    needs_no_device
    mkdir broken
    echo "no plugin" > broken/mltrain-cuda.so
    export MLTRAIN_PLUGINS="$PWD/broken"
    train --backend auto
    [ "$status" -eq 0 ]
    [[ "$output" != *cuda* && "$output" == *"test accuracy"* ]]
    train --backend cuda
    [ "$status" -eq 1 ]
    [[ "$output" == *"broken/mltrain-cuda.so"* ]]
}

@test "cuda: without a driver the plugin says that there is no GPU, and a way out" {
    needs_no_device
    needs_plugin
    [[ "$("$mltrain" --version)" == *"backends: cuda"* ]]
    train --backend cuda
    [ "$status" -eq 1 ]
    [[ "$output" == *"no GPU: "*$'\n'"hint: "* ]]
}

@test "cuda: the plugin shows one symbol, and needs neither CUDA's libraries nor C++'s to be loaded" {
    needs_plugin
    [ "$(nm -D --defined-only "$plugin" | awk '$2 != "A" { print $3 }')" = mltrain_cuda ]
    ! readelf -d "$plugin" | grep NEEDED | grep -E 'cud|cublas|nccl|nvrtc|stdc\+\+'
}
