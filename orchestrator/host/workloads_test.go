package host

import (
	"os/exec"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Programs that people run in sprites go on after a checkpoint as if there had been none, and after a restore and in a fork
// as if nothing had come after it: also those that rename folders and link files which lie in layers by now.
func TestWorkloads(t *testing.T) {
	if testing.Short() {
		t.Skip("programs do much one after the other")
	}
	work := []struct {
		name, tool         string
		begin, goOn, proof string
	}{
		{"git", "git", `
git init -q repo; cd repo; git config user.name s; git config user.email s@example.com
i=0; while [ $i -lt 20 ]; do echo $i >f$i; i=$((i+1)); done; git add .; git commit -qm one; git gc -q; mkdir dir; echo x >dir/x; git add .; git commit -qm two`, `
cd repo; echo more >>f1; git commit -qam three; git mv dir moved; git commit -qm four; git gc -q --prune=now; git clone -q . ../clone; git clone -q --local --no-hardlinks . ../clone2
git -C ../clone checkout -q HEAD~2; git checkout -q -b side; echo s >side; git add side; git commit -qm side; git stash list; git worktree add -q ../tree HEAD~1`, `
cd repo; git fsck --strict 2>&1 | grep -v '^dangling\|^notice' || true; git status --short; git log --format=%s`},
		{"npm", "npm", `
mkdir -p app dep; cd dep; printf '{"name":"dep","version":"1.0.0","main":"m.js"}' >package.json; echo 'module.exports=1' >m.js; npm pack -s >/dev/null
cd ../app; printf '{"name":"app","version":"1.0.0"}' >package.json; npm install -s --offline --no-audit --no-fund ../dep/dep-1.0.0.tgz`, `
cd dep; sed -i s/1.0.0/2.0.0/ package.json; echo 'module.exports=2' >m.js; npm pack -s >/dev/null
cd ../app; npm install -s --offline --no-audit --no-fund ../dep/dep-2.0.0.tgz; mv node_modules moved; mv moved node_modules`, `
cd app; node -p 'require("dep")+" "+require("dep/package.json").version'; ls node_modules`},
		{"go", "/usr/local/go/bin/go", `
export PATH=$PATH:/usr/local/go/bin GOFLAGS=-mod=mod; mkdir -p prog; cd prog; printf 'module example.com/prog\n\ngo 1.21\n' >go.mod
printf 'package prog\n\nfunc Two() int { return 2 }\n' >prog.go; go build .`, `
export PATH=$PATH:/usr/local/go/bin; cd prog; mkdir -p user; printf 'package user\n\nimport "example.com/prog"\n\nfunc Four() int { return 2*prog.Two() }\n' >user/user.go; go build -o user.a ./user; echo 'func Three() int { return 3 }' >>prog.go; go build .; mv -T user renamed; go build -o user.a ./renamed`, `
cd prog; ls; cat *.go | sha256sum; test ! -e user.a || sha256sum <user.a`}, // packages that need nothing of the standard library, which takes long to compile
	}
	for _, kind := range []layer.Kind{layer.Overlay, layer.Btrfs} {
		t.Run(string(kind), func(t *testing.T) {
			w := driverWorld(t, kind, func(string) {})
			if w.host.confiner.Confined().Plain {
				t.Skip("without namespaces these folders have other names")
			}
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			for _, p := range work {
				if _, err := exec.LookPath(p.tool); err != nil || p.name == "go" && kind != layer.Overlay {
					t.Logf("%s: left out here (%v)", p.name, err)
					continue
				}
				w.do("s", p.begin)
				before := w.do("s", p.proof)
				id := w.checkpoint()
				w.do("s", p.goOn)
				after := w.do("s", p.proof)
				last := w.checkpoint()
				if got := w.do("s", p.proof); got != after {
					t.Errorf("%s after a checkpoint: %s, and before: %s", p.name, got, after)
				}
				for point, want := range map[string]string{id: before, last: after} {
					if _, err := w.client.Fork(t.Context(), "s", point, p.name+"-"+point); err != nil {
						t.Fatal(err)
					}
					if got := w.do(p.name+"-"+point, p.proof); got != want {
						t.Errorf("%s in a fork at %s: %s, want %s", p.name, point, got, want)
					}
				}
				if err := w.client.Restore(t.Context(), "s", id); err != nil {
					t.Fatal(err)
				}
				if got := w.do("s", p.proof); got != before {
					t.Errorf("%s after a restore: %s, want %s", p.name, got, before)
				}
				w.do("s", p.goOn)
				if got := w.do("s", p.proof); got != after {
					t.Errorf("%s goes on after a restore: %s, want %s", p.name, got, after)
				}
			}
			w.check()
		})
	}
}
