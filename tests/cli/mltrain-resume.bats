#!/usr/bin/env bats
# How runs of mltrain train end early and go on: signals, kills, limits, full disks.
# shellcheck disable=SC2046 # several words, as they are meant

load mltrain.bash

setup_file() {
    mltrain_setup
}

setup() {
    cd "$BATS_TEST_TMPDIR"
}

# A batch of 4 and a small network: many quick steps, of which each epoch has 25.
quick() {
    printf '%s\n' --threads 1 --data "$SMALL" --net ./net.json --validation 1100 --batch 4 --load-every 0
}

train() {
    $mltrain train $(quick) "$@"
}

small_net() {
    needs_data
    cat > net.json <<-'END'
	{"name": "small", "layers": [{"kind": "maxpool", "size": 4},
	 {"kind": "dense", "outputs": 16}, {"kind": "batchnorm"}, {"kind": "relu"}, {"kind": "dropout", "rate": 0.2},
	 {"kind": "dense", "outputs": "classes"}]}
	END
}

@test "resume: killed at random moments, a run goes on to the losses of one that was not, bit for bit" {
    small_net
    train -q --epochs 40 --log whole.jsonl --log-every 1 > /dev/null
    [ "$(losses whole.jsonl | wc -l)" = 1000 ]
    for i in 1 2 3 4 5; do
        lines=$(cat killed.jsonl 2> /dev/null | wc -l)
        # not by the function: the shell would be killed in its place
        $mltrain train $(quick) -q --epochs 40 --log killed.jsonl --log-every 1 \
            --checkpoint c.safetensors --checkpoint-every 7 --resume &
        pid=$!
        wait_lines killed.jsonl $((lines + 20 + RANDOM % 100)) $pid
        kill -KILL $pid || break # it was faster
        wait $pid || true
        # A last line that was cut by the kill is none.
        sed -i -e '$a\' killed.jsonl
        jq -cR 'fromjson? // empty' killed.jsonl > clean.jsonl
        mv clean.jsonl killed.jsonl
    done
    train --epochs 40 --log killed.jsonl --log-every 1 --checkpoint c.safetensors --checkpoint-every 7 --resume > out 2> err
    cat err
    grep -q "going on from 'c.safetensors': step " err
    losses whole.jsonl > whole
    losses killed.jsonl > killed
    cmp whole killed
}

@test "resume: with adam and adamw a run goes on bit for bit, and not with another optimiser" {
    small_net
    sed -i 's/"outputs": 16/"outputs": 16, "decay": 1/' net.json
    # Both keep blocks of the same names.
    train -q --optimiser adamw --lr 0.001 --l2 0.1 --steps 40 --log whole.jsonl --log-every 1
    train -q --optimiser adamw --lr 0.001 --l2 0.1 --steps 17 --log cut.jsonl --log-every 1 --checkpoint w.safetensors
    run train -q --steps 40 --optimiser adam --checkpoint w.safetensors --resume
    [ "$status" = 1 ]
    [[ "$output" == *"--optimiser is adam, the checkpoint to go on from has adamw"* ]]
    train -q --steps 40 --log cut.jsonl --log-every 1 --checkpoint w.safetensors --resume
    losses whole.jsonl > decayed
    losses cut.jsonl > cut
    cmp decayed cut
    rm whole.jsonl cut.jsonl
    train -q --optimiser adam --lr 0.001 --steps 40 --log whole.jsonl --log-every 1 --checkpoint whole.safetensors
    train -q --optimiser adam --lr 0.001 --steps 17 --log cut.jsonl --log-every 1 --checkpoint c.safetensors
    run train -q --steps 40 --optimiser sgd --checkpoint c.safetensors --resume
    [ "$status" = 1 ]
    [[ "$output" == *"--optimiser is sgd, the checkpoint to go on from has adam"* ]]
    train -q --steps 40 --log cut.jsonl --log-every 1 --checkpoint c.safetensors --resume
    losses whole.jsonl > whole
    losses cut.jsonl > cut
    cmp whole cut
    run ! cmp -s whole decayed
    [ "$(jq -r 'select(.event == "run") | .optimiser' cut.jsonl | uniq)" = adam ]
    run train -q --optimiser adam --momentum 1
    [ "$status" = 1 ]
    [[ "$output" == *"momentum 1: adam"* ]]
    run train --optimiser adagrad
    [ "$status" = 2 ]
    [[ "$output" == *"--optimiser takes sgd, adam or adamw, not 'adagrad'"* ]]
}

@test "resume: smoothed labels stay smoothed, bit for bit, and a description's yield to the checkpoint's" {
    small_net
    train -q --label-smoothing 0.2 --steps 40 --log whole.jsonl --log-every 1
    train -q --label-smoothing 0.2 --steps 17 --log cut.jsonl --log-every 1 --checkpoint c.safetensors
    train -q --steps 40 --log cut.jsonl --log-every 1 --checkpoint c.safetensors --resume
    losses whole.jsonl > whole
    losses cut.jsonl > cut
    cmp whole cut
    [ "$(jq -r 'select(.event == "run") | .recipe.label_smoothing' cut.jsonl | uniq)" = 0.2 ]
    # A run without it is another, and stays so with a description that has it.
    train -q --steps 17 --log plain.jsonl --log-every 1 --checkpoint p.safetensors
    jq '.train = {"label_smoothing": 0.2}' net.json > smooth.json
    mv smooth.json net.json
    train -q --steps 40 --log plain.jsonl --log-every 1 --checkpoint p.safetensors --resume
    losses plain.jsonl > plain
    run ! cmp -s whole plain
    [ "$(jq -r 'select(.event == "run") | .recipe.label_smoothing' plain.jsonl | uniq)" = null ]
    train -q --steps 40 --log described.jsonl --log-every 1
    losses described.jsonl > described
    cmp whole described
    [[ "$($mltrain net ./net.json --input 1x28x28)" == *"l2 0.0005, label smoothing 0.2"* ]]
    run train --backend cuda
    [ "$status" = 1 ]
    [[ "$output" == *"backend cuda has no label smoothing"*$'\n'"hint: use --label-smoothing 0,"* ]]
    run train --label-smoothing 1.1
    [ "$status" = 2 ]
}

@test "resume: imported weights are trained further, with any optimiser" {
    small_net
    train -q --epochs 3 --checkpoint c.safetensors
    $mltrain export --checkpoint c.safetensors --format safetensors torch.safetensors
    $mltrain import -q --net ./net.json --mean 0.5 torch.safetensors -o imported.safetensors
    [ "$($mltrain eval -q --checkpoint imported.safetensors --data "$SMALL")" = \
        "$($mltrain eval -q --checkpoint c.safetensors --data "$SMALL")" ]
    train -q --epochs 3 --log fresh.jsonl --log-every 1
    train -q --epochs 3 --optimiser adam --lr 0.001 --seed 9 --resume=imported.safetensors --checkpoint tuned.safetensors \
        --log tuned.jsonl --log-every 1
    first_losses() { jq -s '[.[] | select(.event == "step").loss][:10] | add' "$1"; }
    [ "$(jq -n "$(first_losses tuned.jsonl) < 0.8 * $(first_losses fresh.jsonl)")" = true ]
    [ "$(jq -r 'select(.event == "run") | "\(.step) \(.optimiser) \(.seed)"' tuned.jsonl)" = "0 adam 9" ]
    run train --net reference --resume=imported.safetensors --checkpoint other.safetensors
    [ "$status" = 1 ]
    [[ "$output" == *"of another network"* ]]
}

@test "resume: without a file there yet a run starts anew and says so" {
    small_net
    train --epochs 1 --checkpoint c.safetensors --resume 2> err
    cat err
    grep -q "there is no 'c.safetensors' yet: starting anew" err
    train --epochs 2 --resume=c.safetensors > out 2> err
    grep -q "going on from 'c.safetensors': step 25, 1 epoch done" err
    grep -q '^checkpoint c.safetensors$' out
}

@test "resume: a name mistyped does not replace the checkpoint that is there" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors
    sum=$(sha256sum c.safetensors)
    run -1 train --epochs 1 --checkpoint c.safetensors --resume=d.safetensors
    [[ "$output" == *"--resume: there is no 'd.safetensors', and starting anew would replace 'c.safetensors'"* ]]
    [[ "$output" == *"hint: --resume alone goes on from 'c.safetensors'"* ]]
    [ "$(sha256sum c.safetensors)" = "$sum" ]
}

@test "a run that does not go on from what its files have keeps that beside them, and says so" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors --keep-best best.safetensors
    [ ! -e c.safetensors~ ] && [ ! -e best.safetensors~ ]
    cp c.safetensors first
    cp best.safetensors first-best
    train --epochs 1 --seed 2 --checkpoint c.safetensors --keep-best best.safetensors > /dev/null 2> err
    cat err
    grep -q "'c.safetensors' has an earlier run's weights, which 'c.safetensors~' keeps; --resume would go on from them" err
    grep -q "'best.safetensors' has an earlier run's weights, which 'best.safetensors~' keeps" err
    cmp first c.safetensors~
    cmp first-best best.safetensors~
    run ! cmp -s first c.safetensors
    # One that goes on has nothing else's to keep.
    train --epochs 2 --resume --checkpoint c.safetensors --keep-best best.safetensors > out 2> err
    run ! grep keeps err
    cmp first c.safetensors~
    cmp first-best best.safetensors~
    grep -qE '^total time [0-9.]+ s since it went on$' out
    train -q --epochs 3 --resume=./c.safetensors --checkpoint c.safetensors
    cmp first c.safetensors~
    # Nor does one that never begins.
    run ! train --epochs 1 --checkpoint c.safetensors --data nowhere
    cmp first c.safetensors~
    # Of what a run that goes on from another file replaces, too, nothing is lost.
    cp c.safetensors second
    train -q --epochs 2 --resume=first --checkpoint c.safetensors
    cmp second c.safetensors~
    ls -A > files
    run ! grep tmp files
}

@test "what is kept of an earlier run replaces nothing that the run is told to use" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors
    cp c.safetensors first
    train -q --epochs 1 --seed 2 --checkpoint c.safetensors
    cp c.safetensors second
    for o in "--resume=c.safetensors~" "--keep-best ./c.safetensors~" "--log c.safetensors~"; do
        run -2 train --epochs 2 --checkpoint c.safetensors $o
        [[ "$output" == *"c.safetensors~' is where what 'c.safetensors' has now would be kept: move one of them, or give --checkpoint another file"* ]]
        cmp first c.safetensors~
        cmp second c.safetensors
    done
    # The ways out that it names.
    train -q --epochs 2 --resume=c.safetensors~ --checkpoint d.safetensors
    mv c.safetensors~ c.safetensors
    train -q --epochs 2 --resume --checkpoint c.safetensors
    # Both names are one file, or one of them is none: nothing would be replaced.
    ln c.safetensors c.safetensors~
    train -q --epochs 3 --resume --checkpoint c.safetensors
    mv c.safetensors gone
    train -q --epochs 3 --resume=c.safetensors~ --checkpoint c.safetensors
}

@test "an earlier run's weights are kept where files have one name alone" {
    [ -x "$top_builddir/tests/fault/refuse" ] || skip "tests/fault/refuse was not built (no libseccomp)"
    small_net
    train -q --epochs 1 --checkpoint c.safetensors
    cp c.safetensors first
    "$top_builddir/tests/fault/refuse" link=EPERM linkat=EPERM -- $mltrain train $(quick) -q --epochs 1 --seed 2 \
        --checkpoint c.safetensors
    cmp first c.safetensors~
    run ! cmp -s first c.safetensors
}

@test "an earlier run's weights that cannot be kept are not replaced" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors
    sum=$(sha256sum c.safetensors)
    mkdir c.safetensors~
    run -1 train -q --epochs 1 --checkpoint c.safetensors
    [[ "$output" == *"keep 'c.safetensors' as 'c.safetensors~': Is a directory"* ]]
    [[ "$output" == *"hint: move 'c.safetensors' away, or go on from it by --resume: a run that starts anew would replace it"* ]]
    [ "$(sha256sum c.safetensors)" = "$sum" ]
    rmdir c.safetensors~
}

@test "resume: what no option says is the checkpoint's, what contradicts it is refused" {
    small_net
    train -q --epochs 1 --seed 7 --checkpoint c.safetensors > /dev/null
    # network, seed, batch and validation are not said again
    $mltrain train --threads 1 --data "$SMALL" --epochs 2 --resume=c.safetensors --log log.jsonl 2> err
    cat err
    [ "$(jq -r 'select(.event == "run") | "\(.net) \(.seed) \(.batch) \(.step)"' log.jsonl)" = "small 7 4 25" ]
    for o in "--seed 8" "--batch 8" "--validation 1000" "--net lenet-5"; do
        run -1 "$mltrain" train --threads 1 --data "$SMALL" --epochs 3 --resume=c.safetensors $o
        [[ "$output" == *"the checkpoint to go on from "* ]]
        [[ "$output" == *"hint: "* ]]
    done
}

@test "resume: of a run that made more steps than are asked for now, none are left" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors > /dev/null
    run -0 "$mltrain" train --threads 1 --data "$SMALL" --steps 3 --resume=c.safetensors
    [[ "$output" == *" to test; 0 steps"* ]]
}

@test "resume: from another file, one with nothing left to train is written where --checkpoint says" {
    small_net
    train -q --epochs 1 --checkpoint a.safetensors > /dev/null
    train -q --epochs 1 --resume=a.safetensors --checkpoint b.safetensors
    $mltrain eval -q --checkpoint b.safetensors --data "$SMALL"
}

@test "files that would overwrite each other are refused" {
    for o in "--checkpoint x --log x" "--checkpoint x --keep-best x" "--log x --keep-best x" "--resume=x --log x"; do
        run -2 "$mltrain" train --data x $o
        [[ "$output" == *" are one file, 'x': give each its own"* ]]
        [ ! -e x ]
    done
}

@test "files that would overwrite each other are, whatever they are called" {
    mkdir dir
    for o in "--checkpoint ./x --log x" "--checkpoint dir/../x --keep-best x" "--log x --keep-best $PWD/x"; do
        run -2 "$mltrain" train --data x $o
        [[ "$output" == *" are one file, '"*"x': give each its own"* ]]
        [ ! -e x ]
    done
    echo old > x
    ln -s x y
    run -2 "$mltrain" train --data x --checkpoint x --log y
    [ "$(cat x)" = old ]
}

@test "resume: a damaged checkpoint is an error, not a new start" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors > /dev/null
    head -c 3000 c.safetensors > cut
    run -1 train --resume=cut --epochs 2
    [[ "$output" == *"--resume: checkpoint 'cut': "* ]]
    cmp <(head -c 3000 c.safetensors) cut
}

@test "resume: on the other backend the losses go on within rounding" {
    small_net
    case " $($mltrain --version)" in *onednn*) ;; *) skip "built without oneDNN" ;; esac
    train -q --epochs 2 --backend reference --log whole.jsonl --log-every 1 > /dev/null
    train -q --epochs 1 --backend reference --log two.jsonl --log-every 1 --checkpoint c.safetensors > /dev/null
    train -q --epochs 2 --backend onednn --log two.jsonl --log-every 1 --checkpoint c.safetensors --resume > /dev/null
    paste <(losses whole.jsonl | tr -d '[]' | cut -d , -f 2) <(losses two.jsonl | tr -d '[]' | cut -d , -f 2) |
        awk '{ d = $1 / $2 - 1; if (d > 1e-3 || d < -1e-3) exit 1 } END { if (NR != 50) exit 1 }'
}

@test "SIGUSR1 and SIGHUP write a checkpoint and end a run with status 0" {
    small_net
    for signal in USR1 HUP; do
        $mltrain train $(quick) --epochs 1000000 --log $signal.jsonl --checkpoint $signal.safetensors 2> err &
        pid=$!
        wait_lines $signal.jsonl 3 $pid
        kill -$signal $pid
        wait $pid
        cat err
        grep -q "stopped by SIG$signal after step .*; weights written to $signal.safetensors" err
    done
}

@test "--on-usr1=continue lets a run go on, as does nohup where SIGHUP comes" {
    small_net
    for signal in USR1 HUP; do
        case $signal in
        USR1) command="$mltrain train --on-usr1=continue" ;;
        HUP) command="nohup $mltrain train" ;;
        esac
        $command $(quick) --epochs 1000000 --log $signal.jsonl --checkpoint $signal.safetensors 2> err > out &
        pid=$!
        wait_lines $signal.jsonl 3 $pid
        kill -$signal $pid
        wait_lines $signal.jsonl $(($(wc -l < $signal.jsonl) + 2)) $pid
        kill -TERM $pid
        wait $pid
        cat err
        grep -q 'stopped by SIGTERM' err
    done
}

@test "--max-time ends a run in time, with a checkpoint and status 0" {
    small_net
    SECONDS=0
    timeout 600 $mltrain train --threads 1 --data "$SMALL" --net ./net.json --validation 1100 --batch 4 \
        --epochs 1000000 --max-time 2s --checkpoint c.safetensors 2> err
    cat err
    grep -q 'stopped by --max-time after step .*; weights written to c.safetensors' err
    $mltrain eval -q --checkpoint c.safetensors --data "$SMALL"
}

@test "--target-accuracy ends a run once it is reached, and --keep-best keeps the best" {
    small_net
    train --epochs 1000 --target-accuracy 30 --keep-best best.safetensors --log log.jsonl > out 2> err
    cat out err
    grep -q 'target-accuracy 30 % was reached in epoch' err
    [ "$(jq -s '[.[] | select(.event == "epoch")] | last | .validation_error <= 0.7' log.jsonl)" = true ]
    [ "$(jq -s '[.[] | select(.event == "epoch")] | .[:-1] | all(.validation_error > 0.7)' log.jsonl)" = true ]
    $mltrain eval -q --checkpoint best.safetensors --data "$SMALL"
}

@test "--target-accuracy is in per cent" {
    run -2 train --epochs 1 --target-accuracy 0.97
    [[ "$output" == *"--target-accuracy 0.97 is less than one per cent: is 97 meant?"* ]]
}

@test "--target-accuracy names the epoch that --steps cut short" {
    small_net
    run train --steps 3 --target-accuracy 1
    [[ "$output" == *"--target-accuracy 1 % was reached in epoch 1, at step 3"* ]]
}

@test "a checkpoint for which there is no room: the one before stays, the run goes on, its end says so" {
    small_net
    train -q --epochs 1 --checkpoint c.safetensors > /dev/null
    cp c.safetensors before
    # bash counts blocks of 1024 bytes
    (ulimit -f 2; train --epochs 2 --checkpoint c.safetensors --resume > out 2> err) && status=0 || status=$?
    cat err
    [ $status = 1 ]
    grep -q "warning: write checkpoint 'c.safetensors': .*File too large; training goes on, and the one before stays" err
    grep -q "at the end, step 50: write checkpoint 'c.safetensors'" err
    cmp before c.safetensors
    [ "$(ls | grep -c safetensors)" = 1 ]
}

@test "a disk that is full when a checkpoint is written leaves the one before" {
    small_net
    mkdir disk
    # Anyone may mount in a user namespace of his own.
    cat > small-disk <<-'END'
	set -e
	mount -t tmpfs -o size=64k none disk
	"$@" -q --epochs 1 --checkpoint disk/c.safetensors > /dev/null
	cp disk/c.safetensors before
	head -c 1M /dev/zero > disk/rest 2> /dev/null || true
	"$@" --epochs 2 --checkpoint disk/c.safetensors --resume && status=0 || status=$?
	cp disk/c.safetensors after
	exit $status
	END
    run -1 unshare --user --map-root-user --mount bash small-disk $mltrain train $(quick)
    [[ "$output" == *"No space left on device; training goes on, and the one before stays"* ]]
    cmp before after
}

@test "an option that is mistyped has the nearest one named" {
    run -2 "$mltrain" train --data x --target-acuracy 3
    [[ "$output" == *"unknown option '--target-acuracy'"*"is --target-accuracy meant?"* ]]
    run -2 "$mltrain" train --data x --max-time soon
    [[ "$output" == *"--max-time takes a time above 0"*"not 'soon'"* ]]
    run -2 "$mltrain" train --data x --resume
    [[ "$output" == *"from which file? give --checkpoint FILE or --resume=FILE"* ]]
}

@test "eval: classes, their confusion and the worst mistakes, for people and as JSON" {
    small_net
    train -q --epochs 4 --checkpoint c.safetensors --log log.jsonl > /dev/null
    $mltrain eval --checkpoint c.safetensors > out # the data set is that of training
    cat out
    grep -q '^class  *images  *wrong  *error$' out
    grep -q "^a row's images are taken for the class of the column$" out
    $mltrain eval --checkpoint c.safetensors --data "$SMALL" --json > json
    [ "$(jq '.images == 300 and ([.confusion[][]] | add) == 300 and (.mistakes | length) == 24' json)" = true ]
    [ "$(jq '.wrong == 300 - ([.confusion | to_entries[] | .value[.key]] | add)' json)" = true ]
    [ "$(jq '[.mistakes[].probability] | . == (sort | reverse)' json)" = true ]
    [ "$(jq '[.mistakes[] | .label != .guess] | all' json)" = true ]
    # the log's record is the same
    [ "$(jq -c 'select(.event == "test") | .confusion' log.jsonl)" = "$(jq -c .confusion json)" ]
    case " $($mltrain --version)" in *+png*) ;; *) return 0 ;; esac
    jq -r '.mistakes[0].png' json | base64 -d | head -c 8 | cmp - <(printf '\x89PNG\r\n\x1a\n')
}

@test "predict: names what pictures show, of any size, from files, IDX files and standard input" {
    small_net
    train -q --epochs 4 --checkpoint c.safetensors > /dev/null
    images="$SMALL/t10k-images-idx3-ubyte"
    $mltrain predict --checkpoint c.safetensors "$images:0" "$images:299" --top 2 > out
    cat out
    [ "$(grep -Ec "^$images:(0|299): [0-9] [0-9.]+ %\$" out)" = 4 ]
    $mltrain predict --checkpoint c.safetensors --json "$images:0" > json
    [ "$(jq '(.logits | length) == 10 and .classes[0].class == (.logits | index(max))' json)" = true ]
    run -1 "$mltrain" predict --checkpoint c.safetensors "$images:300"
    [[ "$output" == *"has images 0 to 299, but no 300"* ]]
    run -1 "$mltrain" predict --checkpoint c.safetensors /no/such.png
    [[ "$output" == *"/no/such.png"* ]]
    run -1 "$mltrain" predict --checkpoint c.safetensors "$images"
    [[ "$output" == *"hint: of an IDX file '$images:0' is the first image"* ]]
    # one that can't be read keeps nobody from the others' answers
    status=0
    $mltrain predict --checkpoint c.safetensors "$images:0" /no/such.png "$images:299" > some 2> err || status=$?
    [ "$status" = 1 ]
    [ "$(wc -l < some)" = 2 ]
    [ "$(cat some)" = "$($mltrain predict --checkpoint c.safetensors "$images:0" "$images:299")" ]
    [ "$(grep -c "^mltrain: image '/no/such.png'" err)" = 1 ]
    case " $($mltrain --version)" in *+png*) ;; *) return 0 ;; esac
    # a mistake's picture gets the guess and the certainty that eval told
    $mltrain eval --checkpoint c.safetensors --data "$SMALL" --json > test
    jq -r '.mistakes[0].png' test | base64 -d > wrong.png
    $mltrain predict --checkpoint c.safetensors --json - < wrong.png > json
    [ "$(jq .classes[0].class json)" = "$(jq .mistakes[0].guess test)" ]
    [ "$(jq --slurpfile t test '(.classes[0].probability - $t[0].mistakes[0].probability) | fabs < 1e-4' json)" = true ]
}
