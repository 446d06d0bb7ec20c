#!/usr/bin/env bats
# mltrain report, as a reader of its source and as a browser sees it. The logs are made up (made_log.py) but for
# one. Where Chromium is not there, what needs it is skipped.

bats_require_minimum_version 1.5.0

setup_file() {
    export mltrain="$top_builddir/bin/mltrain" made="$top_srcdir/tests/cli/made_log.py" LOGS="$BATS_FILE_TMPDIR"
    export PYTHONPATH="$top_srcdir/tests/cli" PYTHONDONTWRITEBYTECODE=1
    "$made" > "$LOGS/cpu.jsonl"
    "$made" --gpu --speed 380000 --seed 2 > "$LOGS/gpu.jsonl"
    "$made" --evil > "$LOGS/evil.jsonl"
    "$made" --cut > "$LOGS/cut.jsonl"
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    ln -s "$LOGS"/*.jsonl .
}

needs_browser() {
    local name

    for name in chromium chromium-browser google-chrome; do
        # Ubuntu's package is a script that asks for a snap.
        BROWSER=$(command -v $name) && "$BROWSER" --version >/dev/null 2>&1 && export BROWSER && return 0
    done
    skip "no Chromium (Debian: apt-get install chromium)"
}

@test "report: one file, complete in itself" {
    $mltrain report cpu.jsonl
    [ -s report.html ]
    # Nothing is loaded from anywhere: no address but those of names spaces, no file.
    [ -z "$(grep -Eo '(src|href)="[^"]*"' report.html | grep -v '^src="data:image/png;base64,')" ]
    run ! grep -E '@import|url\([^#]' report.html
    [ -z "$(grep -Eo 'https?://[^"'"'"' ]*' report.html | grep -v '^http://www.w3.org/2000/svg$')" ]
    grep -q "<h1>convolutional on fashion-mnist</h1>" report.html
    grep -q "The run reached its end at step 4.*000" report.html
    # As many points as there are step records, drawn without any script.
    n=$(jq -s '[.[] | select(.event == "step")] | length' cpu.jsonl)
    [ "$n" = 401 ]
    [ "$(grep -c "data-points=\"$n\"" report.html)" -ge 4 ]
    [ "$($mltrain report cpu.jsonl -o - | cksum)" = "$(cksum < report.html)" ]
}

@test "report: what a stranger wrote into a log stays text" {
    $mltrain report evil.jsonl -o evil.html
    [ "$(grep -c '<script>' evil.html)" = 1 ] # the page's own
    run ! grep -q 'onerror="document' evil.html
    run ! grep -q '<img src=x' evil.html
    grep -q '&lt;img src=x onerror=&quot;document.title=1&quot;&gt;&amp;' evil.html
}

@test "report: a log that was cut off is told, on the page and on stderr" {
    run --separate-stderr $mltrain report cut.jsonl -o cut.html
    [ "$status" = 0 ]
    [[ "$stderr" == *"'cut.jsonl' line "*": cut off in the middle, skipped"* ]]
    grep -q "<li>&#39;cut.jsonl&#39; line [0-9]*: cut off in the middle, skipped</li>" cut.html
    grep -q "goes on, or was killed; the log ends at step" cut.html
}

@test "report: a run that failed before it trained is told as such" {
    run -1 "$mltrain" train --data ./nowhere --log failed.jsonl
    $mltrain report failed.jsonl
    grep -q "failed before its first step: data directory" report.html
}

@test "report: what is no log, is not there or is too much is refused by name" {
    run -1 "$mltrain" report /dev/null
    [[ "$output" == *"'/dev/null' has no record of a run"*"hint: a log is what"* ]]
    run -1 "$mltrain" report missing.jsonl
    [[ "$output" == *"open 'missing.jsonl': No such file or directory"* ]]
    run -2 "$mltrain" report
    [[ "$output" == *"which log?"* ]]
    truncate -s 600M large.jsonl
    run -1 "$mltrain" report large.jsonl
    [[ "$output" == *"large.jsonl"* ]]
    [ ! -e report.html ]
    run -1 "$mltrain" report cpu.jsonl -o no/dir/x.html
    [[ "$output" == *"no/dir/x.html"* ]]
}

@test "report: the page takes neither a log's place nor a device's" {
    cp "$LOGS/cpu.jsonl" own.jsonl
    ln own.jsonl other
    for out in own.jsonl ./own.jsonl other; do
        run -1 "$mltrain" report gpu.jsonl own.jsonl -o $out
        [[ "$output" == *"'$out' is one of the logs, not overwriting it"* ]]
    done
    cmp own.jsonl "$LOGS/cpu.jsonl"
    mkfifo pipe
    timeout 300 cat pipe > piped.html 3>&- &
    $mltrain report cpu.jsonl -o pipe
    wait $!
    [ -p pipe ]
    $mltrain report cpu.jsonl
    cmp piped.html report.html
}

@test "report: two runs are compared, with how much faster the second is" {
    $mltrain report cpu.jsonl gpu.jsonl
    sed -n '/id="differences"/,/<\/table>/p' report.html > table
    cat table
    grep -q 'images/s.*×[56][0-9]' table
    grep -q 'training time.*÷[56][0-9]' table
    grep -q '>backend<.*>onednn<.*>cuda<' table
    run ! grep -q '>momentum<' table # which is the same in both
}

@test "report: a run that failed before it trained is not what the others are compared with" {
    run -1 "$mltrain" train --data ./nowhere --log failed.jsonl
    $mltrain report failed.jsonl cpu.jsonl gpu.jsonl
    grep -q "compare with cpu, the first that was trained" report.html
    # cpu itself has no ratio, gpu one.
    speed=$(grep -o '<th scope="row">images/s</th>.*' report.html)
    [ "$(grep -o '<small>[^<]*</small>' <<<"$speed" | tr '\n' ' ' | sed 's/×[0-9.]*/×/')" = "<small></small> <small></small> <small>×</small> " ]
}

@test "report: elastic ranks of runs that share a machine are a stair each, on one clock" {
    for c in 1000 1100; do
        cat > $c.jsonl <<-END
	{"event":"run","step":0,"steps":30,"batch":64,"seconds":0}
	{"event":"ranks","step":0,"ranks":1,"seconds":1,"clock":$c}
	{"event":"step","step":10,"loss":2,"seconds":5}
	{"event":"ranks","step":10,"ranks":4,"seconds":6,"clock":$((c + 5))}
	{"event":"end","step":20,"seconds":10}
	END
    done
    $mltrain report 1000.jsonl 1100.jsonl
    grep -o '<script type="application/json" id="data-ranks">[^<]*' report.html | sed 's/^[^>]*>//' | jq -c 'walk(numbers += 0) | .lines[] | [.x, .y]' > stairs
    diff stairs - <<-END
	[[0,4,4,5,5,9,9],[1,1,1,1,4,4,0]]
	[[100,104,104,105,105,109,109],[1,1,1,1,4,4,0]]
	END
    $mltrain report cpu.jsonl
    run ! grep -q 'id="ranks"' report.html
}

@test "report: a log that mltrain has just written has all of its curves" {
    [ -e /usr/share/datasets/fashion-mnist ] || skip "Debian's package dataset-fashion-mnist is not installed"
    $mltrain train -q --data fashion-mnist --validation 100 --net mnist-fast --steps 6 --log-every 1 --load-every 0.1 --log run.jsonl
    $mltrain report run.jsonl
    [ "$(jq -s '[.[] | select(.event == "load")] | length > 0' run.jsonl)" = true ]
    for id in loss error lr rate cpu memory; do
        grep -q "<figure class=\"chart\" id=\"$id\">" report.html
    done
    grep -q 'data-points="6"' report.html
}

@test "browser: ranks of two runs that have as many are both seen, and the pointer tells them at their time" {
    needs_browser
    for c in 1000 1004; do
        cat > $c.jsonl <<-END
	{"event":"run","step":0,"steps":30,"batch":64,"seconds":0}
	{"event":"ranks","step":0,"ranks":2,"seconds":0,"clock":$c}
	{"event":"interrupted","step":20,"seconds":16}
	END
    done
    $mltrain report 1000.jsonl 1004.jsonl
    python3 - <<-'END'
	import os
	from browser import Browser
	with Browser(os.environ["BROWSER"]) as b:
	    b.open("file://" + os.getcwd() + "/report.html", width=1200, height=3000)
	    # Between 4 and 16 s the second line lies on the first one, which is seen between its dashes.
	    style = lambda c: b.value(f"getComputedStyle(document.querySelector('#ranks .line.{c}')).strokeDasharray")
	    assert style("c0") == "none" and style("c1") != "none", (style("c0"), style("c1"))
	    x, y, w, h = b.value("(r => [r.left, r.top, r.width, r.height])"
	                         "(document.querySelector('#ranks .plot').getBoundingClientRect())")
	    # chart.c: 560 wide, the axis from 62 to 546, for 20 seconds.
	    b.point(x + (62 + (546 - 62) * 4 / 20) * w / 560, y + h / 2)
	    tip = b.value("document.querySelector('#ranks .tip').innerText").split()
	    assert tip == ["seconds", "4", "1000", "2", "1004", "2"], tip
	    assert not b.errors, b.errors
	END
}

@test "browser: curves stand in the page, no error, and the picture is not blank" {
    needs_browser
    $mltrain report cpu.jsonl
    python3 - <<-'END'
	import os
	from browser import Browser, colors
	with Browser(os.environ["BROWSER"]) as b:
	    # That errors are seen at all is seen first.
	    with open("bad.html", "w") as f:
	        f.write("<script>console.error('one'); fetch('http://127.0.0.1:9/'); undefined.x</script>")
	    b.open("file://" + os.getcwd() + "/bad.html")
	    assert len(b.errors) >= 3, b.errors
	with Browser(os.environ["BROWSER"]) as b:
	    for dark in False, True:
	        b.open("file://" + os.getcwd() + "/report.html", dark=dark)
	        assert b.value("document.documentElement.dataset.ready") == "yes"
	        points = b.value("document.querySelector('#loss .lin .faint').getAttribute('d').split(/[ML]/).length - 1")
	        assert points == 401, points
	        b.screenshot("page.png", whole=False)
	        seen = colors("page.png")
	        assert len(seen) > 50, len(seen)
	        background = max(seen, key=seen.get)
	        assert (sum(background) < 150) == dark, background
	        assert not b.errors, b.errors
	END
}

@test "browser: the pointer and the arrow keys tell values, a checkbox shows logarithms" {
    needs_browser
    $mltrain report cpu.jsonl
    python3 - <<-'END'
	import json, os
	from browser import Browser
	with Browser(os.environ["BROWSER"]) as b:
	    b.open("file://" + os.getcwd() + "/report.html", height=1200)
	    x, y, w, h = b.value("(r => [r.left, r.top, r.width, r.height])"
	                         "(document.querySelector('#loss .plot').getBoundingClientRect())")
	    b.point(x + w / 2, y + h / 2)
	    tip = b.value("document.querySelector('#loss .tip').innerText")
	    step = int(tip.split()[1])
	    loss = next(r["loss"] for r in map(json.loads, open("cpu.jsonl"))
	                if r["event"] == "step" and r["step"] == step)
	    assert 1500 < step < 2500 and "%.4g" % loss in tip, (tip, loss)
	    b.point(2, 2)
	    assert b.value("document.querySelector('#loss .tip').hidden")
	    b.value("document.querySelector('#loss .plot').focus()")
	    for name in "Home", "ArrowRight", "ArrowRight":
	        b.key(name)
	    said = b.value("document.querySelector('#loss [aria-live]').textContent")
	    assert said.startswith("step 20: "), said
	    shown = "[...document.querySelectorAll('#loss .plot g')].filter(g => getComputedStyle(g).display != 'none').map(g => g.className.baseVal)"
	    assert "lin" in b.value(shown) and "log" not in b.value(shown)
	    b.value("document.querySelector('#loss .logswitch').click()")
	    assert "log" in b.value(shown) and "lin" not in b.value(shown)
	    assert not b.errors, b.errors
	END
}

@test "browser: a stretch of a curve is dragged to full width, and a double click shows all again" {
    needs_browser
    $mltrain report cpu.jsonl
    python3 - <<-'END'
	import os, re
	from browser import Browser
	with Browser(os.environ["BROWSER"]) as b:
	    b.open("file://" + os.getcwd() + "/report.html", height=1200)
	    x, y, w, h = b.value("(r => [r.left, r.top, r.width, r.height])"
	                         "(document.querySelector('#loss .plot').getBoundingClientRect())")
	    # Columns of the drawing (chart.c): 560 wide, the axis from 62 to 546, for the steps 0 to 4000.
	    at = lambda step: x + (62 + (546 - 62) * step / 4000) * w / 560
	    ticks = lambda: [float(t) for t in b.value(
	        "[...document.querySelectorAll('#loss g.x text')].map(t => t.textContent)")]
	    heights = lambda: [float(t) for t in b.value(
	        "[...document.querySelectorAll('#loss .lin g.y text')].map(t => t.textContent)")]
	    where = lambda: b.value("(r => [r.left, r.right, r.top, r.bottom])"
	                            "(document.querySelector('#loss .lin .faint').getBoundingClientRect())")
	    button = "document.querySelector('#loss button').hidden"
	    before = ticks(), heights(), where()
	    assert before[0][-1] == 4000 and b.value(button), before
	    b.drag(at(2000), at(3000), y + h / 2)
	    assert 2000 <= ticks()[0] < 2300 and 2700 < ticks()[-1] <= 3000 and len(ticks()) > 3, ticks()
	    assert max(heights()) < max(before[1]) / 2, (heights(), before[1])
	    # Four times as wide, with the same middle to the right of what was drawn over.
	    left, right = where()[:2]
	    assert abs((right - left) / (before[2][1] - before[2][0]) - 4) < 0.1, (where(), before)
	    assert not b.value(button)
	    # Values are those of the stretch.
	    b.point(at(2000), y + h / 2)
	    tip = b.value("document.querySelector('#loss .tip').innerText")
	    assert 2480 < int(tip.split()[1]) < 2520, tip
	    b.value("document.querySelector('#loss .plot').focus()")
	    b.key("Home")
	    said = b.value("document.querySelector('#loss [aria-live]').textContent")
	    assert 2000 <= int(re.match(r"step (\d+)", said)[1]) <= 2020, said
	    # A mark lies on its curve, as stretched.
	    mark = b.value("(r => [r.left + r.width / 2, r.top + r.height / 2])"
	                   "(document.querySelector('#loss .mark').getBoundingClientRect())")
	    near = b.value("(p => { const c = document.querySelector('#loss .lin .faint'), m = c.getScreenCTM();"
	        "let d = 1e9; for (let i = 0; i <= 20000; i++) { const q = c.getPointAtLength(c.getTotalLength() * i / 20000)"
	        ".matrixTransform(m); d = Math.min(d, Math.hypot(q.x - p[0], q.y - p[1])); } return d; })(%s)" % mark)
	    assert near < 3, near
	    # Further in, on a logarithmic axis, by keys; then all again.
	    b.value("document.querySelector('#loss .logswitch').click()")
	    b.drag(at(1000), at(3000), y + h / 2)
	    assert 2250 <= ticks()[0] and ticks()[-1] <= 2750, ticks()
	    b.double_click(at(2000), y + h / 2)
	    b.value("document.querySelector('#loss .logswitch').click()")
	    assert (ticks(), heights()) == before[:2], (ticks(), heights(), before)
	    assert max(abs(p - q) for p, q in zip(where(), before[2])) < 1 and b.value(button)
	    b.value("document.querySelector('#loss .plot').focus()")
	    b.key("+")
	    assert ticks()[0] >= 1000 and ticks()[-1] <= 3000, ticks()
	    b.key("Escape")
	    assert ticks() == before[0]
	    # A click is no drag.
	    b.drag(at(2000), at(2000) + 2, y + h / 2)
	    assert ticks() == before[0]
	    # Every chart can be zoomed, those with dots and with logarithms of time, too.
	    for id in b.value("[...document.querySelectorAll('.chart')].map(c => c.id)"):
	        b.value("document.querySelector('#%s .plot').focus()" % id)
	        b.key("+")
	        bad = b.value("[...document.querySelectorAll('#%s .plot *')].filter(e => [...e.attributes].some("
	                      "a => /NaN|Infinity/.test(a.value))).length" % id)
	        assert bad == 0, id
	    assert not b.errors, b.errors
	END
}

@test "browser: scripts in a log do not run, nor does anything ask the network" {
    needs_browser
    $mltrain report evil.jsonl gpu.jsonl
    python3 - <<-'END'
	import os
	from browser import Browser
	with Browser(os.environ["BROWSER"]) as b:
	    b.open("file://" + os.getcwd() + "/report.html")
	    assert b.value("document.title") not in ("stolen", "1")
	    assert b.value("document.scripts.length - document.querySelectorAll('script[type]').length") == 1
	    assert b.value("document.querySelectorAll('img:not([src^=\"data:image/png\"])').length") == 0
	    # A script that got in nevertheless would not be let run.
	    assert not b.errors, b.errors
	    b.value("document.body.append(Object.assign(document.createElement('script'), {text: 'document.title = \"stolen\"'}))")
	    assert b.value("document.title") != "stolen"
	    assert any("Content Security Policy" in e for e in b.errors), b.errors
	END
}

@test "browser: a telephone, paper, and a reader without scripts get all of it" {
    needs_browser
    $mltrain report cpu.jsonl gpu.jsonl
    python3 - <<-'END'
	import os
	from browser import Browser
	with Browser(os.environ["BROWSER"]) as b:
	    page = "file://" + os.getcwd() + "/report.html"
	    b.open(page, width=360, height=700)
	    assert b.value("document.documentElement.scrollWidth") <= 360, "it scrolls sideways"
	    b.open(page, scripts=False)
	    assert b.value("document.querySelectorAll('.plot path.line').length") >= 20
	    assert b.value("document.documentElement.dataset.ready") is None
	    b.pdf("page.pdf")
	    assert open("page.pdf", "rb").read(5) == b"%PDF-" and os.path.getsize("page.pdf") > 50000
	    # Who listens: a title, headings in order, words for each picture, places to go by keyboard.
	    b.open(page)
	    assert b.value("document.title") and b.value("document.documentElement.lang") == "en"
	    levels = b.value("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
	    assert levels[0] == 1 and levels.count(1) == 1 and all(y - x <= 1 for x, y in zip(levels, levels[1:])), levels
	    assert b.value("[...document.images].every(i => i.alt.length > 10 && i.naturalWidth == 28)")
	    assert b.value("[...document.querySelectorAll('svg[role=img]')].every(s => s.getAttribute('aria-label') && s.tabIndex == 0)")
	    assert b.value("[...document.querySelectorAll('th')].every(h => h.scope || !h.textContent)")
	    assert not b.errors, b.errors
	END
}
