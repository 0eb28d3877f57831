package worktree

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// packer writes a pack as no git would.
type packer struct {
	t       *testing.T
	objects int
	body    bytes.Buffer
}

// object adds an object and returns its id.
func (p *packer) object(kind, body string) string {
	p.entry(map[string]int{"commit": 1, "tree": 2, "blob": 3}[kind], len(body), nil, []byte(body))
	sum := sha1.Sum(fmt.Appendf(nil, "%s %d\x00%s", kind, len(body), body))
	return hex.EncodeToString(sum[:])
}

// copies adds a blob that is the blob base, of size bytes, n times.
func (p *packer) copies(base string, size, n int) {
	var delta []byte
	delta = binary.AppendUvarint(delta, uint64(size))
	delta = binary.AppendUvarint(delta, uint64(size*n))
	for range n {
		delta = append(delta, 0x80|0x70, byte(size), byte(size>>8), byte(size>>16)) // copy from 0
	}
	id, err := hex.DecodeString(base)
	if err != nil {
		p.t.Fatal(err)
	}
	p.entry(7, len(delta), id, delta)
}

func (p *packer) entry(kind, size int, before, body []byte) {
	head := byte(kind<<4 | size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.body.WriteByte(head | 0x80)
		head = byte(size & 0x7f)
	}
	p.body.WriteByte(head)
	p.body.Write(before)
	z, err := zlib.NewWriterLevel(&p.body, zlib.BestCompression)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := z.Write(body); err != nil {
		p.t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		p.t.Fatal(err)
	}
	p.objects++
}

func treeLine(mode, name, id string) string {
	raw, _ := hex.DecodeString(id)
	return mode + " " + name + "\x00" + string(raw)
}

func (p *packer) commitTree(tree, parent string) string {
	return p.object("commit", fmt.Sprintf("tree %s\nparent %s\nauthor A <a@example.org> 1700000000 +0000\ncommitter A <a@example.org> 1700000000 +0000\n\nhostile\n", tree, parent))
}

// bundle writes what was added as a bundle file and returns its size.
func (p *packer) bundle(file, base, head string) int {
	var pack bytes.Buffer
	pack.WriteString("PACK")
	_ = binary.Write(&pack, binary.BigEndian, [2]uint32{2, uint32(p.objects)})
	_, _ = p.body.WriteTo(&pack)
	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])
	out := fmt.Sprintf("# v2 git bundle\n-%s x\n%s refs/heads/fix\n\n%s", base, head, pack.Bytes())
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		p.t.Fatal(err)
	}
	return len(out)
}

// Small bundles whose objects take gigabytes are refused before anything is shown to a person, and cost the host neither.
func TestObjectsThatGrow(t *testing.T) {
	w := newWorld(t)
	w.git.maxFile = 64 << 20
	url := w.origin()
	base, _, _ := w.sprite(url, "x")
	tests := map[string]func(*packer) (tree string){
		// 1.5 GB by copies of a copy
		"delta": func(p *packer) string {
			blob := p.object("blob", strings.Repeat("\x00", 1<<20))
			p.copies(blob, 1<<20, 1500)
			return p.object("tree", treeLine("100644", "a", blob))
		},
		// 10^12 paths
		"trees": func(p *packer) string {
			id, mode := p.object("blob", "x\n"), "100644"
			for range 12 {
				var body string
				for n := range 10 {
					body += treeLine(mode, fmt.Sprintf("entry%d", n), id)
				}
				id, mode = p.object("tree", body), "40000"
			}
			return id
		},
		// paths whose length alone is too much
		"deep trees": func(p *packer) string {
			id, mode := p.object("blob", "x\n"), "100644"
			for range 300 {
				id, mode = p.object("tree", treeLine(mode, strings.Repeat("d", 4000), id)), "40000"
			}
			return id
		},
		// 16 million lines, which compares by line at 100 bytes of memory each
		"lines": func(p *packer) string {
			blob := p.object("blob", strings.Repeat("\n", 16<<20-1))
			return p.object("tree", treeLine("100644", "a.txt", blob))
		},
		"large file": func(p *packer) string {
			blob := p.object("blob", strings.Repeat("\x00", 65<<20))
			return p.object("tree", treeLine("100644", "zero", blob))
		},
		"large tree": func(p *packer) string {
			blob := p.object("blob", "x\n")
			var body strings.Builder
			for n := range 500_000 {
				body.WriteString(treeLine("100644", fmt.Sprintf("entry%08d", n), blob))
			}
			return p.object("tree", body.String())
		},
	}
	for name, build := range tests {
		t.Run(name, func(t *testing.T) {
			p := &packer{t: t}
			head := p.commitTree(build(p), base)
			file := w.path("bomb.bundle")
			size := p.bundle(file, base, head)
			began := time.Now()
			_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: file, Branch: "fix", Base: base, Head: head})
			t.Logf("%d bytes: %v after %v", size, err, time.Since(began))
			if name == "lines" && err == nil {
				return // it fits: the test is about memory
			}
			wantCode(t, err, "limit_exceeded")
		})
	}
}

// Limits of time, output and memory end git, with all that it started, and say which of them did.
func TestLimitsEndGit(t *testing.T) {
	w := newWorld(t)
	for name, tt := range map[string]struct {
		script, want string
		limits       gitexec.Limits
	}{
		"processor": {"while :; do :; done", "more than 1s of processor time", gitexec.Limits{CPU: time.Second, Deadline: time.Minute}},
		"clock":     {"sleep 60 & wait", "longer than 1s", gitexec.Limits{CPU: time.Minute, Deadline: time.Second}},
		"output":    {"yes", "printed more than 32 MiB", gitexec.Limits{CPU: time.Minute, Deadline: time.Minute}},
		"memory":    {"exec git hash-object --stdin </dev/zero", "more than 256 MiB of memory", gitexec.Limits{Memory: 256 << 20, CPU: time.Minute, Deadline: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			w.write(name, "#!/bin/sh\n"+tt.script+"\n")
			if err := os.Chmod(w.path(name), 0o755); err != nil {
				t.Fatal(err)
			}
			g, err := New(Options{Path: w.path(name), Env: w.env, Scratch: w.path("scratch-" + name)})
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.proc.Run(t.Context(), gitexec.Command{Args: []string{"show"}, Limits: &tt.limits})
			wantCode(t, err, "limit_exceeded")
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("run = %v, want %q", err, tt.want)
			}
		})
	}
}

// A repository of 2 GB fits the limits.
func TestLargeRepositoryFits(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 2 GB")
	}
	w := newWorld(t)
	w.in(".", "init", "-q", "--bare", "-b", "main", "origin.git")
	pr, pw := io.Pipe()
	go func() {
		block := []byte(noise(32 << 20))
		fmt.Fprintf(pw, "commit refs/heads/main\ncommitter A <a@example.org> 1700000000 +0000\ndata 5\nlarge\n")
		for n := range 64 {
			copy(block, fmt.Sprintf("file %d\n", n))
			fmt.Fprintf(pw, "M 100644 inline d%d/f\ndata %d\n", n, len(block))
			_, _ = pw.Write(block)
			fmt.Fprintf(pw, "\n")
		}
		pw.Close()
	}()
	w.input("origin.git", pr, "-c", "core.compression=0", "-c", "pack.compression=0", "fast-import", "--quiet", "--depth=0", "--big-file-threshold=1m")
	packs, err := filepath.Glob(w.path("origin.git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs %v, %v", packs, err)
	}
	if info, err := os.Stat(packs[0]); err != nil || info.Size() < 2<<30 {
		t.Fatalf("pack of %v, %v", info, err)
	}
	base := w.in("origin.git", "rev-parse", "main")
	w.in(".", "clone", "-q", "-s", "--no-checkout", "origin.git", "work")
	w.in("work", "read-tree", "HEAD")
	w.write("work/d3/f", "short now\n")
	w.write("work/new", noise(40<<20))
	w.in("work", "add", "d3/f", "new")
	w.in("work", "commit", "-q", "-m", "change")
	w.in("work", "bundle", "create", "-q", w.path("fix.bundle"), base+"..HEAD")
	p, err := w.git.Inspect(t.Context(), Request{Repo: w.path("origin.git"), Run: "r1", Bundle: w.path("fix.bundle"), Branch: "fix", Base: base})
	if err != nil || p.FilesTotal != 2 {
		t.Fatalf("Inspect = %+v, %v", p, err)
	}
	if r, err := w.git.Push(t.Context(), p); err != nil || r.Status != Pushed {
		t.Errorf("Push = %+v, %v", r, err)
	}
}

// input is in with a standard input.
func (w *world) input(dir string, stdin io.Reader, args ...string) {
	w.t.Helper()
	cmd := w.command(dir, args...)
	cmd.Stdin = stdin
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
