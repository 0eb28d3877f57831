package native

import (
	"context"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// plant makes a commit of a tree that git would not make, and returns it.
func plant(b *bench, entries ...string) string {
	b.Helper()
	var tree strings.Builder
	for _, e := range entries { // "mode name content"
		mode, rest, _ := strings.Cut(e, " ")
		name, content, _ := strings.Cut(rest, "=")
		blob := hashObject(b, "blob", content)
		raw, _ := exec.Command("printf", "%b", `\x`+strings.Join(pairs(blob), `\x`)).Output()
		tree.WriteString(mode + " " + name + "\x00" + string(raw))
	}
	id := hashObject(b, "tree", tree.String())
	return b.git("commit-tree", id, "-m", "hostile")
}

func pairs(hex string) []string {
	var list []string
	for i := 0; i+1 < len(hex); i += 2 {
		list = append(list, hex[i:i+2])
	}
	return list
}

func hashObject(b *bench, kind, content string) string {
	b.Helper()
	cmd := exec.Command("git", "hash-object", "-w", "--literally", "-t", kind, "--stdin")
	cmd.Dir, cmd.Env, cmd.Stdin = b.dir, gitEnv(), strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("hash-object: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestHostileTreesAreRefused: no clone of them comes to be, and nothing is written outside of it.
func TestHostileTreesAreRefused(t *testing.T) {
	for name, entries := range map[string][]string{
		"git folder":           {"100644 .git=x"},
		"in capitals":          {"100644 .GIT=x"},
		"short name of NTFS":   {"100644 git~1=x"},
		"zero width":           {"100644 .g\u200cit=x"},
		"blank at the end":     {"100644 .git =x"},
		"stream":               {"100644 .git::$INDEX_ALLOCATION=x"},
		"backslash":            {"100644 .git\\config=x"},
		"parent":               {"100644 ..=x"},
		"here":                 {"100644 .=x"},
		"out":                  {"100644 ../OUT/evil=x"},
		"absolute":             {"100644 /tmp/evil=x"},
		"symlink, then folder": {"120000 a=../OUT", "40000 a=x"},
		"twice":                {"100644 a=x", "100644 a=y"},
		"out of order":         {"100644 b=x", "100644 a=y"},
		"modules as symlink":   {"120000 .gitmodules=../OUT/x"},
		"symlink to nowhere":   {"120000 l="},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			commit := plant(b, entries...)
			b.git("update-ref", "refs/heads/main", commit)
			outside := filepath.Join(b.root.Dir(), "OUT")
			if err := os.Mkdir(outside, 0o755); err != nil {
				t.Fatal(err)
			}
			dest := filepath.Join(b.root.Dir(), "clone")
			if err := os.Mkdir(dest, 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := Engine{}.Clone(context.Background(), engine.CloneSpec{
				Root: b.root, From: engine.Source{URL: b.dir, Protocol: "file", Local: true}, RemoteURL: "x", Dir: dest,
			})
			if e := exitOf(err); e != protocol.ExitUnsafe && e != protocol.ExitFailed {
				t.Errorf("clone = %v, want a refusal", err)
			}
			if files, _ := os.ReadDir(outside); len(files) > 0 {
				t.Errorf("written outside: %v", files)
			}
			if files, _ := os.ReadDir(dest); len(files) > 1 {
				t.Errorf("checked out: %v", files)
			}
		})
	}
}

// TestLinksInGitFoldersAreRefused: what is written below .git lands there or nowhere.
func TestLinksInGitFoldersAreRefused(t *testing.T) {
	ctx := context.Background()
	for _, name := range []string{"objects", "refs", "logs", "refs/heads", "logs/refs", "objects/pack"} {
		t.Run(strings.ReplaceAll(name, "/", "-"), func(t *testing.T) {
			b := newBench(t)
			base(b)
			outside := filepath.Join(t.TempDir(), "outside")
			real := filepath.Join(b.dir, ".git", name)
			if err := os.Rename(real, outside); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, real); err != nil {
				t.Fatal(err)
			}
			b.write("new", "n")
			before := tree(t, outside)
			location := engine.Location{Root: b.root, Name: "repo", Dir: b.dir, GitDir: filepath.Join(b.dir, ".git"), CommonDir: filepath.Join(b.dir, ".git")}
			r, err := Engine{}.Open(ctx, location)
			if err == nil {
				spec := commitSpec("x\n")
				spec.All = true
				_, err = r.Commit(ctx, spec)
				r.Close()
			}
			if err == nil {
				t.Error("the commit was made")
			}
			if after := tree(t, outside); after != before {
				t.Errorf("written outside:\n%s", after)
			}
		})
	}
}

// TestHostileIndexesAreRefused: an index that git would not write makes no operation fail otherwise, and no commit.
func TestHostileIndexesAreRefused(t *testing.T) {
	ctx := context.Background()
	for name, names := range map[string][]string{
		"out of order":             {"b", "a"},
		"folders in pieces":        {"d/a", "e", "d/b"},
		"twice":                    {"a", "a"},
		"a file and files below":   {"a", "a.b", "a/b"},
		"a folder and files below": {"d/a", "d/a.b", "d/a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			base(b)
			blob, err := hex.DecodeString(b.git("rev-parse", "HEAD:a"))
			if err != nil {
				t.Fatal(err)
			}
			data := binary.BigEndian.AppendUint32([]byte("DIRC\x00\x00\x00\x02"), uint32(len(names)))
			for _, name := range names {
				entry := append(binary.BigEndian.AppendUint32(make([]byte, 24), 0o100644), make([]byte, 12)...)
				entry = binary.BigEndian.AppendUint16(append(entry, blob...), uint16(len(name)))
				entry = append(entry, name...)
				data = append(append(data, entry...), make([]byte, 8-len(entry)%8)...)
			}
			sum := sha1.Sum(data)
			if err := os.WriteFile(filepath.Join(b.dir, ".git/index"), append(data, sum[:]...), 0o644); err != nil {
				t.Fatal(err)
			}
			head := b.git("rev-parse", "HEAD")
			for what, f := range map[string]func(engine.Repo) error{
				"status": func(r engine.Repo) error { _, err := r.Status(ctx, engine.StatusSpec{Untracked: "all"}); return err },
				"diff": func(r engine.Repo) error {
					_, err := r.Diff(ctx, engine.DiffSpec{Format: engine.FormatNameStatus})
					return err
				},
				"commit": func(r engine.Repo) error { _, err := r.Commit(ctx, commitSpec("x\n")); return err },
			} {
				if err := b.use(f); err != nil && exitOf(err) != protocol.ExitFailed || err == nil && what == "commit" {
					t.Errorf("%s = %v", what, err)
				}
			}
			if now := b.git("rev-parse", "HEAD"); now != head {
				t.Errorf("the commit %s was made", now)
			}
		})
	}
}

// tree lists what a folder holds.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil {
			info, _ := d.Info()
			b.WriteString(name + " " + info.ModTime().String() + "\n")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCredentialsStayWithTheirRemote: a redirect to another host takes none along, and none is written down.
func TestCredentialsStayWithTheirRemote(t *testing.T) {
	const secret = "s3cr3t-canary"
	b := newBench(t)
	base(b)
	real := serve(t, b.root.Dir())
	var seen []string
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		seen = append(seen, password)
		http.Error(w, "no", http.StatusUnauthorized)
	}))
	defer stranger.Close()
	for _, test := range []struct {
		name string
		to   func(r *http.Request) string
		exit int
	}{
		{"another host", func(r *http.Request) string { return stranger.URL + r.URL.RequestURI() }, protocol.ExitFailed},
		{"the same host", func(r *http.Request) string { return strings.Replace(r.URL.RequestURI(), "/moved", "/here", 1) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			seen = nil
			var passwords []string
			front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, password, _ := r.BasicAuth()
				passwords = append(passwords, password)
				if strings.HasPrefix(r.URL.Path, "/moved") {
					http.Redirect(w, r, test.to(r), http.StatusFound)
					return
				}
				forward(w, r, real.URL+strings.TrimPrefix(r.URL.RequestURI(), "/here"))
			}))
			defer front.Close()
			dest := filepath.Join(t.TempDir(), "clone")
			_, err := Engine{}.Clone(context.Background(), engine.CloneSpec{
				From: engine.Source{
					URL: front.URL + "/moved/repo/.git", Protocol: "http", Credential: &engine.Credential{Username: "x-access-token", Token: secret},
				},
				RemoteURL: front.URL + "/moved/repo/.git", Dir: dest,
			})
			if test.exit == 0 && err != nil || test.exit != 0 && exitOf(err) != test.exit {
				t.Errorf("clone = %v, want exit %d", err, test.exit)
			}
			if len(passwords) == 0 || passwords[0] != secret {
				t.Errorf("the remote itself saw %q", passwords)
			}
			if strings.Contains(strings.Join(seen, " "), secret) {
				t.Error("a stranger saw the credential")
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error tells it: %v", err)
			}
			if out, err := exec.Command("grep", "-r", secret, dest).Output(); err == nil {
				t.Errorf("it was written down:\n%s", out)
			}
		})
	}
}

// forward passes a request on.
func forward(w http.ResponseWriter, r *http.Request, url string) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, url, r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req.Header, req.ContentLength = r.Header, r.ContentLength
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	io.Copy(w, resp.Body)
}

// TestRemotesThatFail: each failure has its code.
func TestRemotesThatFail(t *testing.T) {
	answer := func(code int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			io.WriteString(w, text)
		}
	}
	const refs = "application/x-git-upload-pack-advertisement"
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		exit    int
	}{
		"wants a credential": {answer(401, "text/plain", ""), protocol.ExitDenied},
		"not there":          {answer(404, "text/plain", ""), protocol.ExitNotFound},
		"broken":             {answer(503, "text/plain", ""), protocol.ExitNetwork},
		"a web page":         {answer(200, "text/html", "<html>"), protocol.ExitNotFound},
		"cut off":            {answer(200, refs, "001e# service=git-upload-pack\n0000003f"), protocol.ExitNetwork},
		"no protocol":        {answer(200, refs, "hello, this is no packet"), protocol.ExitNotFound},
		"says why":           {answer(200, refs, "001e# service=git-upload-pack\n00000013ERR go away now"), protocol.ExitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(test.handler)
			defer s.Close()
			_, err := Engine{}.Refs(context.Background(), engine.Source{URL: s.URL + "/x", Protocol: "http"})
			if exitOf(err) != test.exit {
				t.Errorf("refs = %v (exit %d), want exit %d", err, exitOf(err), test.exit)
			}
		})
	}
}
