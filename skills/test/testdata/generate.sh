#!/usr/bin/env bash
# Runs the test runners that this machine has on the projects in samples/, and writes what they print and report to
# reports/, without machine's paths and times. The parsers of ../results are tested on these. A runner that is missing is
# named and its files stay as they are. Afterwards: go test ./skills/test/results -update, and read the difference.
#
#   LATTICE_NPM_CACHE  a folder with node_modules that holds jest 29, vitest 3, mocha 11 and node 24
#   MAVEN_REPO         a Maven repository with surefire and junit 4 (Debian: libsurefire-java, libmaven-compiler-plugin-java,
#                      libmaven-resources-plugin-java, junit4); default /usr/share/maven-repo
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
npm=${LATTICE_NPM_CACHE:-/var/tmp/lattice-ci-npm}/node_modules
maven=${MAVEN_REPO:-/usr/share/maven-repo}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$here/samples/." "$work/"
mkdir "$work/out"
export NO_COLOR=1 CI=1 LC_ALL=C.UTF-8 RUST_BACKTRACE=0 CARGO_TERM_COLOR=never PYTHONDONTWRITEBYTECODE=1

has() { command -v "$1" >/dev/null 2>&1 || { echo "no $1: its reports stay as they are" >&2; return 1; }; }

# in PROJECT COMMAND… runs in a project; red is what is wanted.
in_project() { (cd "$work/$1" && shift && "$@"); true; }

if has go; then in_project go go test -json ./... >"$work/out/go-sample.jsonl"; fi
if has cargo; then
	in_project cargo cargo test --no-fail-fast -- --test-threads=1 >"$work/out/cargo.txt" 2>&1
	in_project cargo-broken cargo test --no-fail-fast >"$work/out/cargo-broken.txt" 2>&1
fi
if has /usr/bin/pytest; then
	PYTHONPATH=. in_project pytest /usr/bin/pytest -q -p no:cacheprovider --junitxml="$work/out/pytest.xml" -o junit_family=xunit1 >/dev/null
fi
if has /usr/bin/python3; then in_project unittest /usr/bin/python3 -m unittest discover -v >"$work/out/unittest.txt" 2>&1; fi
if has node; then
	in_project node node --test --test-reporter=tap >"$work/out/node-$(node -p 'process.versions.node.split(".")[0]').tap"
	if has "$npm/.bin/node"; then in_project node "$npm/.bin/node" --test --test-reporter=tap >"$work/out/node-24.tap"; fi
fi
for tool in jest vitest mocha; do ln -s "$npm" "$work/$tool/node_modules"; done
if has "$npm/.bin/jest"; then in_project jest node_modules/.bin/jest --ci --json --testLocationInResults --outputFile="$work/out/jest.json" >/dev/null 2>&1; fi
if has "$npm/.bin/vitest"; then in_project vitest node_modules/.bin/vitest run --reporter=json --outputFile="$work/out/vitest.json" >/dev/null 2>&1; fi
if has "$npm/.bin/mocha"; then in_project mocha node_modules/.bin/mocha --reporter json --reporter-option output="$work/out/mocha.json" >/dev/null; fi
if has bats; then in_project bats bats --tap . >"$work/out/bats.tap"; fi
if has prove; then
	mkdir "$work/prove/tap"
	PERL_TEST_HARNESS_DUMP_TAP=tap in_project prove prove --merge -r t >/dev/null 2>&1
	for name in calc dies skipped; do cp "$work/prove/tap/t/$name.t" "$work/out/prove-$name.tap"; done
fi
if has ctest; then
	in_project ctest cmake -S . -B build >/dev/null
	in_project ctest ctest --test-dir build --output-junit "$work/out/ctest.xml" >/dev/null 2>&1
fi
if has rspec; then in_project rspec rspec --no-color --format json --out "$work/out/rspec.json" >/dev/null; fi
if has phpunit; then in_project phpunit phpunit --log-junit "$work/out/phpunit.xml" >/dev/null; fi
if has mvn && [ -d "$maven" ]; then
	cp -rL "$maven" "$work/m2" 2>/dev/null
	in_project maven mvn -o -B -q -Dmaven.repo.local="$work/m2" -Dsurefire.rerunFailingTestsCount=1 test >/dev/null 2>&1
	grep -v '<property ' "$work/maven/target/surefire-reports/TEST-com.example.CalcTest.xml" >"$work/out/surefire.xml"
	in_project maven-broken mvn -o -B -Dmaven.repo.local="$work/m2" test >"$work/out/maven-broken.txt" 2>&1
fi

cd "$work/out"
sed -E -i \
	-e "s#(/[a-z0-9._-]+)+/node_modules/#/npm/node_modules/#g; s#(\.\./)+[a-z0-9./_-]*/node_modules/#/npm/node_modules/#g; s#$work#/src#g" \
	-e 's/ time="[0-9.]+"/ time="0.001"/g; s/timestamp="[^"]*"/timestamp="2026-01-02T03:04:05"/g; s/hostname="[^"]*"/hostname="host"/g' \
	-e 's/duration_ms:? [0-9.]+/duration_ms: 1.5/; s/"(duration|run_time|seed)":[0-9.e-]+/"\1":1/g; s/"(duration)": [0-9.]+/"\1": 1/' \
	-e 's/"(start|end)(Time)?":[0-9.]+/"\1\2":1000/g; s/"(start|end)": "[^"]*"/"\1": "2026-01-02T03:04:05.000Z"/' \
	-e 's/"Time":"[^"]*"/"Time":"2026-01-02T03:04:05Z"/; s/"Elapsed":[0-9.]+/"Elapsed":0.01/; s/([(\t])(0|[0-9]+)\.[0-9]+s/\10.01s/g' \
	-e "s/(thread '[^']*') \([0-9]+\)/\1 (1)/; s/(in|finished in|Total time: +|Finished at:) [0-9][0-9T:.Z-]*/\1 1/; s/-[0-9a-f]{16}/-0123456789abcdef/g" \
	-e 's/0x[0-9a-f]+/0xc0ffee/g; s/goroutine [0-9]+/goroutine 7/g' ./*
mv ./* "$here/reports/"
