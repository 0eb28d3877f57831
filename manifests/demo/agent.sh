#!/bin/sh
# A script in the place of an agent, so that the demo needs no model and no key. Like any agent of agent.run it gets the
# prompt on stdin and works in the repository; it reads the failing test, edits slug.go, and says what it does.
set -eu

prompt=$(cat)
echo "prompt: $(printf '%s\n' "$prompt" | sed -n 1p)"

if [ ! -f slug.go ]; then
	echo "there is no slug.go in $(pwd); this agent knows only the demo's repository" >&2
	exit 1
fi
if grep -q 'gap && b.Len() > 0' slug.go; then
	echo "slug.go is sound already; nothing to do"
	exit 0
fi

echo "TestMake wants no hyphen at either end, but Make writes one for a gap before the first word:"
grep -n 'if gap {' slug.go
sed 's/if gap {/if gap \&\& b.Len() > 0 {/' slug.go >slug.go.new
cat slug.go.new >slug.go
rm slug.go.new
echo "a hyphen now needs a word before it:"
grep -n 'if gap' slug.go
