#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# glm_command.sh - tally glm as people use it: 4 ranks make the model of one, byte for byte; a killed rank is named
# on the others, and --resume goes on to the same bytes; predictions are liblinear's where it is installed; what is
# wrong is named and leaves nothing behind. TALLY_BUILD: where the programs are.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 2
# shellcheck source=tests/e2e/command.sh
. tests/e2e/command.sh

glm() { # STATUS ARGUMENT...
	try "$1" glm "${@:2}" </dev/null
}

# ranks N STATUS ARGUMENT...: the same under tally run.
ranks() {
	local n=$1 want=$2 got
	shift 2
	timeout 120 "$tally" run -n "$n" --no-prefix -- "$tally" glm "$@" >out 2>err </dev/null
	got=$?
	[[ $got == "$want" ]] || fail "$n ranks: tally glm $*: exit status $got, not $want"
}

# Rows of two classes, of three, and of numbers; the second half of each is for tests.
data_make() {
	python3 - <<-'EOF'
		import random
		random.seed(7)
		rows, features = 3000, 200
		weights = [[random.gauss(0, 1) for _ in range(features)] for _ in range(3)]
		files = {n: (open(n, "w"), open(n + ".t", "w")) for n in ("two", "three", "number")}
		for i in range(rows):
		    used = sorted(random.sample(range(features), random.randint(1, 30)))
		    values = [round(random.gauss(0, 1), 3) for _ in used]
		    sums = [sum(w[j] * v for j, v in zip(used, values)) + random.gauss(0, 1) for w in weights]
		    text = " ".join("%d:%g" % (j + 1, v) for j, v in zip(used, values))
		    labels = {"two": sums[0] > 0 and 1 or -1, "three": [30, 10, 20][sums.index(max(sums))],
		              "number": "%.3f" % sums[0]}
		    for name, label in labels.items():
		        files[name][i % 2].write("%s %s\n" % (label, text))
	EOF
}

# json FILE CLAIM: its lines are objects; CLAIM about `epochs`, a list, and `end`.
json() {
	python3 - "$@" <<-'EOF' || fail "json: $2"
		import json, sys
		lines = [json.loads(line) for line in open(sys.argv[1])]
		epochs, end = lines[:-1], lines[-1]
		assert eval("(" + sys.argv[2] + ")")
	EOF
}

same_bits() { # ranks, threads, micro-batches and ways of travelling make no difference
	local losses=(two:logistic two:hinge three:squared-hinge number:least-squares) one file loss
	for one in "${losses[@]}"; do
		IFS=: read -r file loss <<<"$one"
		local how=("$file" --loss "$loss" --epochs 2 --bias 1 --l2 1e-4)
		glm 0 train "${how[@]}" -m one
		ranks 4 0 train "${how[@]}" -m four --json --test "$file.t"
		same one four
		json out 'len(epochs) == 2 and end["ranks"] == 4 and end["rows"] == 1500 and
			end["epochs"] == 2 and end["test_loss"] == epochs[1]["test_loss"] and
			all(end[part + "_us"] > 0 for part in ("minibatch", "compute", "exchange"))'
	done
	ranks 3 0 train "${how[@]}" --threads 2 -b 5 --comm dense -m three.model
	same one three.model
	ranks 2 0 train "${how[@]}" --threads 2 -b 7 --no-overlap -m two.model
	same one two.model
	ranks 2 0 train two --l1 1e-3 --no-shuffle -B 50 -b 50 --comm latency --epochs 2 -m two.model
	glm 0 train two --l1 1e-3 --no-shuffle -B 50 --threads 3 --epochs 2 -m one
	same one two.model
	xz -k two && mv two.xz packed
	glm 0 train packed --l1 1e-3 --no-shuffle -B 50 --epochs 2 -m one
	same one two.model
}

data_parallel() { # gradients travel: the same curve, not the same bits; two runs are alike
	local file
	for file in two three; do
		glm 0 train "$file" --epochs 3 --bias 1 --json
		cp out model.json
		ranks 4 0 train "$file" --epochs 3 --bias 1 --json --parallel data -m data
		cp out data.json
		ranks 4 0 train "$file" --epochs 3 --bias 1 --json --parallel data -m again
		same data again
		python3 - <<-'EOF' || fail "another curve with --parallel data"
			import json
			a, b = ([json.loads(line) for line in open(name)] for name in ("model.json", "data.json"))
			assert b[-1]["parallel"] == "data" and a[-1]["parallel"] == "model"
			assert len(a) == len(b) == 4
			assert all(abs(x["loss"] / y["loss"] - 1) < 1e-3 for x, y in zip(a, b))
		EOF
	done
	glm 2 train two --parallel data --threads 2
}

layouts() { # dense rows give the model of CSR; bits one of their own, the same everywhere, and read as many
	local bits
	glm 0 train two --epochs 2 --l1 1e-3 -m one --layout csr
	ranks 3 0 train two --epochs 2 --l1 1e-3 -m dense --layout dense --json
	same one dense
	json out 'end["layout"] == "dense" and end["bits"] is None and
		end["bytes_read_per_epoch"] >= end["dense_float32_bytes_per_epoch"] > 0'
	for bits in 1 4; do
		glm 0 train three --epochs 2 -m one --bits $bits --threads 3
		ranks 4 0 train three --epochs 2 -m four --bits $bits -b 9 --json
		same one four
		cmp -s one dense && fail "$bits bits made no difference"
		json out "end['layout'] == 'weave' and end['bits'] == $bits"
	done
	glm 0 train two --epochs 5 --bits 4 --test two.t --json -m model
	json out 'end["test_accuracy"] >= 0.8 and
		1 <= end["bytes_read_per_epoch"] / (end["dense_float32_bytes_per_epoch"] * 4 / 32) < 1.3'
	cp out trained
	glm 0 evaluate two.t -m model --json
	python3 - <<-'EOF' || fail "the model of 4 bits is not for the values as they are"
		import json
		a, b = json.loads(open("trained").readlines()[-1]), json.load(open("out"))
		assert a["test_accuracy"] == b["accuracy"] and abs(a["test_loss"] - b["loss"]) < 1e-8
	EOF
	glm 0 train two --epochs 2 --bits 3 --checkpoint planes -m model
	glm 0 train two --epochs 4 --bits 3 --checkpoint planes --resume -m resumed
	glm 0 train two --epochs 4 --bits 3 -m model
	same model resumed
	glm 1 train two --epochs 6 --bits 2 --checkpoint planes --resume
	says err 'other options'
	for _ in {1..2000}; do printf '1 1:1\n-1 2:1\n'; done >wide
	echo '1 20000000:1' >>wide
	ranks 2 1 train wide --layout dense
	says err 'rank [01]: --layout dense takes [0-9.]+ GB for 4001 rows .*--layout csr'
	glm 1 train wide --bits 4
	says err '20000000 columns, and can have 1048576: take more --threads or ranks'
}

scores() { # evaluate says what train has said, and learning has taken place
	local file least
	# with --scale a file for tests has the same rows as the same file to train with
	glm 0 train two --epochs 2 --scale 0.25 --test two --json
	json out 'len(epochs) == 2 and all(one["test_loss"] == one["loss"] for one in epochs)'
	for file in two,0.8 three,0.7; do
		least=${file#*,} file=${file%,*}
		glm 0 train "$file" --epochs 5 --test "$file.t" --json -m model
		cp out trained
		json trained "end['test_accuracy'] >= $least and end['test_auc'] > end['test_accuracy']"
		ranks 2 0 evaluate "$file.t" -m model --json
		cp out evaluated
		python3 - <<-'EOF' || fail "evaluate of $file says something else than train"
			import json
			a, b = json.loads(open("trained").readlines()[-1]), json.load(open("evaluated"))
			assert a["test_accuracy"] == b["accuracy"]
			assert abs(a["test_loss"] - b["loss"]) < 1e-8 and abs(a["test_auc"] - b["auc"]) < 1e-8
		EOF
		glm 0 predict "$file.t" -m model -o predicted
		python3 - "$file" <<-'EOF' || fail "predictions of $file are not as good as evaluate says"
			import json, sys
			rows = zip(open("predicted"), open(sys.argv[1] + ".t"))
			right = [int(a) == int(b.split()[0]) for a, b in rows]
			assert len(right) == 1500
			assert abs(sum(right) / 1500 - json.load(open("evaluated"))["accuracy"]) < 1e-9
		EOF
		if ! command -v liblinear-predict >/dev/null; then
			echo "SKIP: liblinear's predictions: no liblinear-predict (scripts/deps.sh test)"
			continue
		fi
		liblinear-predict "$file.t" model theirs >/dev/null
		same predicted theirs
	done
	glm 0 train number --loss least-squares --epochs 30 --rate 0.1 --test number.t --json -m model
	json out 'end["accuracy"] is None and end["test_mse"] < 2'
	glm 0 predict number.t -m model
	[[ $(wc -l <out) == 1500 ]] || fail "a regression predicts $(wc -l <out) numbers"
	says model '^solver_type L2R_L2LOSS_SVR$'
}

signs() { # +1 is the first class even if -1 is the file's, as liblinear has it; a stored model says itself which is
	for _ in {1..50}; do printf -- '-1 1:1\n+1 2:1\n-1\n-1\n'; done >signs
	glm 0 train signs -m one --json
	json out 'end["accuracy"] == 1'
	says one '^label 1 -1$'
	ranks 3 0 train signs -m three.model
	same one three.model
	ranks 2 0 train signs --parallel data -m two.model --json
	json out 'end["accuracy"] == 1'
	says two.model '^label 1 -1$'
	head -4 signs >few
	glm 0 predict few -m one -o predicted
	[[ $(paste -sd ' ' predicted) == '-1 1 -1 -1' ]] || fail "predicted: $(paste -sd ' ' predicted)"
	sed 's/^label .*/label -1 1/' one >turned
	glm 0 predict few -m turned -o predicted
	[[ $(paste -sd ' ' predicted) == '1 -1 1 1' ]] || fail "predicted, turned round: $(paste -sd ' ' predicted)"
}

resume() { # a rank dies after a checkpoint: the others say which; going on gives the bytes of an unbroken run
	local how=(two --epochs 300 --test two.t) run status killed_ms ended_ms
	glm 0 train "${how[@]}" -m unbroken --json
	cp out unbroken.json
	# shellcheck disable=SC2016 # the ranks expand it
	"$tally" run -n 4 -- sh -c 'echo $$ >pid.$TALLY_RANK; exec "$@"' sh \
		"$tally" glm train "${how[@]}" --checkpoint saved --checkpoint-every 3 -m killed >out 2>err </dev/null &
	run=$!
	for _ in {1..600}; do
		[[ -e saved ]] && break
		sleep 0.05
	done
	kill -KILL "$(<pid.2)"
	killed_ms=$(date +%s%3N)
	wait "$run"
	status=$? # of whoever tally run saw first: the killed rank, or one that had heard of it
	((status == 137 || status == 1)) || fail "a run whose rank was killed: exit status $status"
	ended_ms=$(date +%s%3N)
	# that it is 2 s at most, e2e-glm looks; here also what the machine stood still
	((ended_ms - killed_ms <= 4500)) || fail "$((ended_ms - killed_ms)) ms until all knew of it"
	for rank in 0 1 3; do
		says err "^\[$rank\] tally glm train: rank 2 on .* died"
	done
	[[ ! -e killed && ! -e killed.partial ]] || fail "a model of half a run"
	ranks 3 0 train "${how[@]}" --checkpoint saved --checkpoint-every 50 --resume -m resumed --json
	same unbroken resumed
	json out 'end["epochs"] == 300 and 0 < end["resumed_epochs"] < 300 and
		len(epochs) == 300 - end["resumed_epochs"]'
	python3 - <<-'EOF' || fail "another curve after --resume"
		import json
		a, b = ([json.loads(line) for line in open(name)][:-1] for name in ("unbroken.json", "out"))
		for epoch in b:
		    was = a[epoch["epoch"] - 1]
		    assert all(was[k] == epoch[k] for k in was if k != "train_s")
	EOF
	cp saved foreign && printf x | dd of=foreign bs=1 seek=40 conv=notrunc 2>/dev/null
	ranks 2 1 train "${how[@]}" --checkpoint foreign --resume
	says err 'foreign: damaged'
	head -c 100 saved >foreign
	ranks 2 1 train "${how[@]}" --checkpoint foreign --resume
	says err 'foreign: truncated'
	ranks 2 1 train two --seed 2 --checkpoint saved --resume
	says err '^tally glm train: .*saved'
	ranks 2 0 train two --epochs 1 --checkpoint none --resume
	says err 'none: not there yet: from the beginning'
	[[ -s none ]] || fail "no checkpoint at the end"
}

refused() { # what is wrong is named, and nothing is left of it
	glm 2 train
	glm 2 train two --rate fast
	says err '^tally glm train: --rate fast: auto, or a number above 0'
	glm 2 nothing
	glm 2 predict two
	ranks 2 1 train not-there
	says err '^tally glm train: not-there: No such file'
	printf '1 1:1\n1 2:1 2:1\n' >bad
	ranks 2 1 train bad -m bad.model
	says err '^tally glm train: bad:2:7: '
	glm 1 evaluate bad -m one
	says err '^tally glm evaluate: bad:2:7: '
	glm 1 predict two -m bad
	says err '^tally glm predict: bad:1:1: '
	glm 1 predict bad -m one -o predicted.bad
	[[ ! -e predicted.bad && ! -e predicted.bad.partial ]] || fail "half a file of predictions"
	printf '1 1:1\n1 2:1\n' >single
	ranks 2 1 train single
	says err 'single: all labels are the same'
	printf '0.5 1:1\n1 2:1\n' >fractions
	ranks 2 1 train fractions -m bad.model
	says err 'label 0.5: a model has classes that are whole numbers'
	ranks 2 1 train two -m /no/such/model
	says err '/no/such/model.partial: No such file'
	[[ ! -e bad.model && ! -e bad.model.partial ]] || fail "a model of nothing"
	# a rank that reads another file
	cp two.t other
	# shellcheck disable=SC2016
	timeout 60 "$tally" run -n 2 -- sh -c 'if [ $TALLY_RANK = 0 ]; then cp two mine.0; else cp other mine.1; fi
		exec "$@" mine.$TALLY_RANK' sh "$tally" glm train >out 2>err </dev/null
	[[ $? == 1 ]] || fail "two files in one job"
	says err '^\[1\] tally glm train: .*file'
	# shellcheck disable=SC2016
	timeout 60 "$tally" run -n 3 -- sh -c 'exec "$@" --test mine.$((TALLY_RANK == 2))' sh \
		"$tally" glm train two >out 2>err </dev/null
	[[ $? == 1 ]] || fail "two files for tests in one job"
	says err '^\[2\] tally glm train: .*rank 2 has another'
	# the activations of this one leave what their packets hold
	glm 1 train two --rate 1e20
	says err '(epoch|step).*--rate'
}

# odd STATUS OPTIONS OF-RANK-0 OF-RANK-1: two ranks with the same options, and some of their own.
odd() {
	local got
	# shellcheck disable=SC2016 # the ranks expand it
	timeout 20 "$tally" run -n 2 --no-prefix -- sh -c 'if [ "$TALLY_RANK" = 0 ]; then set -- $2; else set -- $3; fi
		exec "$TALLY" glm train two $0 "$@"' "$2" '' "$3" "$4" >out 2>err </dev/null
	got=$?
	[[ $got == "$1" ]] || fail "ranks with $2 and '$3', '$4': exit status $got, not $1"
}

options_differ() { # refused within a second or two, by name, or it works: nobody waits for what another one leaves out
	local seconds=$SECONDS name one other
	export TALLY=$tally
	while read -r name one other; do
		[[ $one == - ]] && one=
		[[ $other == - ]] && other=
		odd 1 '--epochs 3' "${one//,/ }" "${other//,/ }"
		says err "^tally glm train: $name differs: rank 0 has "
	done <<-'EOF'
		--early-stop --early-stop,2 -
		--test --test,two.t -
		--test - --test,two.t
		--comm --comm,latency --comm,dense
		--parallel - --parallel,data
		--model - --model,odd
		--checkpoint - --checkpoint,odd
		--json - --json
	EOF
	odd 1 '--comm latency' '--epochs 3' '--epochs 4'
	says err '^tally glm train: --epochs differs: rank 0 has 3, rank 1 has 4; give all ranks the same'
	((SECONDS - seconds < 20)) || fail "$((SECONDS - seconds)) s for nine refusals"
	odd 0 '--epochs 3' '-m odd --checkpoint odd.saved --checkpoint-every 2 --json' ''
	json out 'len(epochs) == 3 and end["model"] == "odd" and end["minibatch_us"] > 0'
	odd 0 '--epochs 3' '-m even --no-overlap --layout dense' '--layout csr'
	same odd even
	odd 0 '--epochs 5' '--checkpoint odd.saved --resume --json -m odd' ''
	json out 'end["resumed_epochs"] == 3 and end["epochs"] == 5'
	glm 0 train two --epochs 5 -m even
	same odd even
}

outputs() {
	glm 0 train two --epochs 100 --early-stop 2 --rate 1 --schedule constant --test two.t --json
	json out 'end["stopped_early"] and 3 <= end["epochs"] < 100'
	# what was flat is flat: nothing is left to train
	local flat=(train two --epochs 100 --early-stop 2 --rate 1 --schedule constant --test two.t
		--checkpoint flat.saved)
	glm 0 "${flat[@]}" -m one
	glm 0 "${flat[@]}" --resume -m four --json
	json out 'end["stopped_early"] and end["epochs"] == end["resumed_epochs"]'
	same one four
	if command -v gnuplot >/dev/null; then
		glm 0 train two --epochs 3 --test two.t --plot curve.svg
		says curve.svg '</svg>'
	else
		echo "SKIP: curves: no gnuplot (scripts/deps.sh test)"
	fi
	glm 2 train two --resume
	glm 1 train two --epochs 1 --plot curve.gif
	TALLY_PROGRESS=1 glm 0 train two --epochs 40
	says err 'epoch [0-9]+/40 .*\] .*%'
	glm 0 train --help
	says out 'usage: tally glm train'
}

data_make
same_bits
data_parallel
layouts
scores
signs
resume
refused
options_differ
outputs
echo "$failures failures, ${SECONDS} s"
exit $((failures != 0))
