package worktree

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// Every way that a sprite's bundle may be wrong is refused by name, and nothing of it reaches the target.
func TestHostileBundles(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, head, bundle := w.sprite(url, "fix")
	good, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(good, []byte("\n\nPACK"))
	if at < 0 {
		t.Fatal("no pack in the bundle")
	}
	pack := good[at+2:]
	stranger := strings.Repeat("b", 40)
	build := func(header string, pack []byte) []byte { return append([]byte(header+"\n"), pack...) }
	change := func(at int, b byte) []byte {
		p := bytes.Clone(pack)
		p[at] ^= b
		return p
	}
	claim := bytes.Clone(pack)
	binary.BigEndian.PutUint32(claim[8:], 1<<31)
	more := bytes.Clone(pack)
	binary.BigEndian.PutUint32(more[8:], binary.BigEndian.Uint32(more[8:])+5)
	const v2 = "# v2 git bundle\n"
	prereq, ref := "-"+base+" x\n", head+" refs/heads/fix\n"
	tests := map[string]struct {
		file []byte
		code string
	}{
		"empty":                       {nil, "bad_bundle"},
		"not a bundle":                {[]byte("#!/bin/sh\necho pwned\n"), "bad_bundle"},
		"one endless line":            {bytes.Repeat([]byte("a"), 1<<20), "bad_bundle"},
		"endless header":              {append([]byte(v2), bytes.Repeat([]byte(prereq), 25000)...), "bad_bundle"},
		"two heads":                   {build(v2+prereq+ref+head+" refs/heads/main\n", pack), "bad_bundle"},
		"no head":                     {build(v2+prereq, pack), "bad_bundle"},
		"tag":                         {build(v2+prereq+head+" refs/tags/v1\n", pack), "bad_bundle"},
		"ref with dots":               {build(v2+prereq+head+" refs/heads/../../config\n", pack), "bad_bundle"},
		"ref as option":               {build(v2+prereq+head+" --upload-pack=x\n", pack), "bad_bundle"},
		"ref with escape":             {build(v2+prereq+head+" refs/heads/\x1b[31m\n", pack), "bad_bundle"},
		"short id":                    {build(v2+prereq+head[:10]+" refs/heads/fix\n", pack), "bad_bundle"},
		"filter":                      {build("# v3 git bundle\n@object-format=sha1\n@filter=blob:none\n"+prereq+ref, pack), "bad_bundle"},
		"other hash":                  {build("# v3 git bundle\n@object-format=sha256\n"+prereq+ref, pack), "bad_bundle"},
		"unknown prerequisite":        {build(v2+"-"+stranger+" x\n"+ref, pack), "bad_bundle"},
		"head that is not there":      {build(v2+prereq+stranger+" refs/heads/fix\n", pack), "bad_bundle"},
		"no pack":                     {build(v2+prereq+ref, nil), "bad_bundle"},
		"cut pack":                    {build(v2+prereq+ref, pack[:len(pack)-30]), "bad_bundle"},
		"flipped bit in the data":     {build(v2+prereq+ref, change(len(pack)/2, 4)), "bad_bundle"},
		"flipped bit in the checksum": {build(v2+prereq+ref, change(len(pack)-1, 1)), "bad_bundle"},
		"more objects than there are": {build(v2+prereq+ref, more), "bad_bundle"},
		"giant claim":                 {build(v2+prereq+ref, claim), "limit_exceeded"},
		"too big":                     {append(bytes.Clone(good), make([]byte, 2<<20)...), "limit_exceeded"},
	}
	w.git.maxBundle = 2 << 20
	before := w.bytes("origin.git")
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			file := w.path("hostile.bundle")
			if err := os.WriteFile(file, tt.file, 0o600); err != nil {
				t.Fatal(err)
			}
			want := head
			if name == "head that is not there" {
				want = ""
			}
			_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: file, Branch: "fix", Base: base, Head: want})
			var r *lattice.Refusal
			if name == "more objects than there are" && errors.As(err, &r) && r.Fault.Code == "limit_exceeded" {
				return // git takes the checksum for a sixth object, of any size
			}
			wantCode(t, err, tt.code)
		})
	}
	w.git.maxBundle = 512 << 20
	if now := w.bytes("origin.git"); len(now) != len(before) {
		t.Errorf("the target has %d files, had %d", len(now), len(before))
	}
	link := w.path("link.bundle")
	if err := os.Symlink(bundle, link); err != nil {
		t.Fatal(err)
	}
	_, err = w.git.Inspect(t.Context(), Request{Repo: url, Bundle: link, Branch: "fix", Base: base, Head: head})
	wantCode(t, err, "bad_bundle")
}

// Trees that git would refuse to check out safely do not pass, and odd ones are pointed out to the person who approves.
func TestHostileTrees(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, _, _ := w.sprite(url, "x")
	blob := func(content string) string {
		w.write("blob", content)
		return w.in("sprite-x", "hash-object", "-w", w.path("blob"))
	}
	tests := map[string]struct {
		mode, name, kind, content string
		code, warning             string
	}{
		"dot git":            {"040000", ".git", "tree", "", "bad_bundle", ""},
		"dot git upper case": {"040000", ".GIT", "tree", "", "bad_bundle", ""},
		"dot dot":            {"040000", "..", "tree", "", "bad_bundle", ""},
		"short name of .git": {"040000", "git~1", "tree", "", "bad_bundle", ""},
		"gitmodules trick":   {"100644", ".gitmodules", "blob", "[submodule \"../x\"]\n\tpath = x\n\turl = --upload-pack=x\n", "bad_bundle", ""},
		"link outside":       {"120000", "out", "blob", "../../etc/passwd", "", "symbolic link that leaves the tree: out → ../../etc/passwd"},
		"absolute link":      {"120000", "abs", "blob", "/etc/passwd", "", "symbolic link that leaves the tree: abs → /etc/passwd"},
		"link into git":      {"120000", "cfg", "blob", ".GIT/config", "", "symbolic link that leaves the tree: cfg → .GIT/config"},
		"link inside":        {"120000", "in", "blob", "a.txt", "", ""},
		"submodule":          {"160000", "sub", "commit", "", "", "submodule: sub"},
		"escape in a name":   {"100644", "a\x1b[2Jb", "blob", "x\n", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			oid := base
			switch tt.kind {
			case "blob":
				oid = blob(tt.content)
			case "tree":
				oid = w.in("sprite-x", "rev-parse", base+"^{tree}")
			}
			w.write("entry", tt.mode+" "+tt.kind+" "+oid+"\t"+tt.name+"\x00")
			tree := w.in(".", "-c", "core.protectNTFS=false", "-c", "core.protectHFS=false", "--git-dir=sprite-x/.git", "-c", "alias.mk=!git mktree -z --missing <"+w.path("entry"), "mk")
			head := w.in("sprite-x", "commit-tree", "-p", base, "-m", "odd", tree)
			w.in("sprite-x", "update-ref", "refs/heads/odd", head)
			w.in("sprite-x", "bundle", "create", "-q", w.path("odd.bundle"), base+"..odd")
			p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: w.path("odd.bundle"), Branch: "odd", Base: base, Head: head})
			if tt.code != "" {
				wantCode(t, err, tt.code)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(p.Warnings, "\n"); got != tt.warning {
				t.Errorf("warnings = %q, want %q", got, tt.warning)
			}
			for _, f := range p.Diff.Files {
				if strings.ContainsRune(f.Path, 0x1b) {
					t.Errorf("path %q can move a terminal's cursor", f.Path)
				}
			}
		})
	}
}

// A head that does not build on the base: its history would replace the target's.
func TestUnrelatedHistory(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	base, _, _ := w.sprite(url, "x")
	w.in("sprite-x", "checkout", "-q", "--orphan", "alien")
	head := w.commitTree("sprite-x", "alien.txt", "alien\n")
	w.in("sprite-x", "bundle", "create", "-q", w.path("alien.bundle"), "alien")
	_, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: w.path("alien.bundle"), Branch: "alien", Base: base, Head: head})
	wantCode(t, err, "not_a_descendant")
}

// A bundle with the whole history, and one of a merge, are as good as a thin one.
func TestWholeAndMergedHistory(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	old, _, _ := w.sprite(url, "x")
	w.in("sprite-x", "checkout", "-q", "main")
	w.in("sprite-x", "checkout", "-q", "-b", "merged")
	w.in("sprite-x", "merge", "-q", "--no-ff", "-m", "merge x", "x")
	head := w.in("sprite-x", "rev-parse", "HEAD")
	for name, revs := range map[string]string{"whole": "HEAD", "thin": old + "..merged"} {
		t.Run(name, func(t *testing.T) {
			w.in("sprite-x", "bundle", "create", "-q", w.path("m.bundle"), revs)
			p, err := w.git.Inspect(t.Context(), Request{Repo: url, Bundle: w.path("m.bundle"), Branch: "m", Base: old})
			if err != nil || p.Head != head || p.Diff.CommitsTotal != 2 {
				t.Errorf("Inspect = %+v, %v, want head %s with 2 commits", p, err, head)
			}
		})
	}
}

func FuzzReadBundle(f *testing.F) {
	oid := strings.Repeat("a", 40)
	f.Add([]byte("# v2 git bundle\n-" + oid + " x\n" + oid + " refs/heads/x\n\nPACK\x00\x00\x00\x02\x00\x00\x00\x03"))
	f.Add([]byte("# v3 git bundle\n@object-format=sha256\n" + oid + " HEAD\n\nPACK\x00\x00\x00\x02\x00\x00\x00\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readBundle(bytes.NewReader(b))
		if err != nil {
			if !gitexec.IsRefusal(err) {
				t.Fatalf("error %v is no refusal", err)
			}
			return
		}
		if !remote.IsOID(h.head) || int64(len(b)) < h.pack+12 || !bytes.HasPrefix(b[h.pack:], []byte("PACK")) {
			t.Fatalf("accepted %+v of %q", h, b)
		}
	})
}
