package spritestest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

var fileTests = map[string]func(env){
	"files travel both ways": func(e env) {
		want := []byte("from outside\x00\xff")
		if err := e.client.WriteFile(e.ctx, e.name, "/workspace/a/b.bin", bytes.NewReader(want), 0o750); err != nil {
			e.Fatal(err)
		}
		if got := e.mustRun("cat /workspace/a/b.bin; stat -c %a /workspace/a/b.bin; echo more >> /workspace/a/b.bin"); got != string(want)+"750\n" {
			e.Errorf("inside = %q", got)
		}
		got, err := e.client.ReadFile(e.ctx, e.name, "/workspace/a/b.bin", 1<<10)
		if err != nil || string(got) != string(want)+"more\n" {
			e.Errorf("ReadFile = %q, %v", got, err)
		}
		if _, err := e.client.ReadFile(e.ctx, e.name, "/workspace/a/b.bin", 3); !errors.Is(err, sprites.ErrTooLarge) {
			e.Errorf("ReadFile beyond its limit = %v, want ErrTooLarge", err)
		}
		if err := e.client.Files().Remove(e.ctx, e.name, "/workspace/a", true); err != nil {
			e.Error(err)
		}
		if code, _, _ := e.runScript("test -e /workspace/a", nil); code == 0 {
			e.Error("the removed folder is still there")
		}
	},
	"files are read from an offset": func(e env) {
		e.mustRun("mkdir -p /workspace; printf 0123456789 > /workspace/tail")
		for offset, want := range map[int64]string{0: "0123456789", 4: "456789", 10: "", 99: ""} {
			r, err := e.client.ReadFrom(e.ctx, e.name, "/workspace/tail", offset)
			if err != nil {
				e.Error(err)
				continue
			}
			got, err := io.ReadAll(r)
			if r.Close(); err != nil || string(got) != want {
				e.Errorf("from %d = %q, %v, want %q", offset, got, err, want)
			}
		}
	},
	"files are listed": func(e env) {
		e.mustRun("mkdir -p /workspace/d/sub; echo x > /workspace/d/f; ln -s f /workspace/d/l")
		list, err := e.client.Files().List(e.ctx, e.name, "/workspace/d")
		var got []string
		for _, f := range list {
			got = append(got, f.Name+" "+f.Type)
		}
		if want := []string{"f file", "l symlink", "sub directory"}; err != nil || !slices.Equal(got, want) {
			e.Errorf("ListDir = %q, %v, want %q", got, err, want)
		}
		some, total, err := e.client.Files().Some(e.ctx, e.name, "/workspace/d", 2)
		if err != nil || len(some) != 2 || total != 3 {
			e.Errorf("Some = %v of %d, %v, want 2 of 3", some, total, err)
		}
	},
	"files: a missing one is told from a missing sprite": func(e env) {
		_, err := e.client.ReadFile(e.ctx, e.name, "/workspace/none", 1)
		if !errors.Is(err, sprites.ErrNotFound) || !errors.Is(err, fs.ErrNotExist) {
			e.Errorf("missing file = %v", err)
		}
		_, err = e.client.ReadFile(e.ctx, "no-such-sprite", "/workspace/none", 1)
		if !errors.Is(err, sprites.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			e.Errorf("missing sprite = %v", err)
		}
	},
	"files: links lead where they lead in the sprite": func(e env) {
		if slices.Contains(e.target.Capabilities, "translated") {
			e.Skip("there is no view of the sprite's own")
		}
		e.mustRun("mkdir -p /workspace; echo in > /workspace/in; ln -s /workspace/in /workspace/good; ln -s /etc/passwd /workspace/bad; ln -s ../../../../etc/passwd /workspace/up; ln -s loop /workspace/loop")
		if got, err := e.client.ReadFile(e.ctx, e.name, "/workspace/good", 99); err != nil || string(got) != "in\n" {
			e.Errorf("an absolute link inside = %q, %v", got, err)
		}
		// Either the sprite's own, or, where it has no view of its own, nothing.
		for _, name := range []string{"/workspace/bad", "/workspace/up", "/etc/passwd", "/workspace/../etc/passwd", "/workspace/loop"} {
			if got, err := e.client.ReadFile(e.ctx, e.name, name, 1<<20); err == nil && string(got) != e.mustRun("cat "+name) {
				e.Errorf("read %s = %q", name, got)
			}
			if err := e.client.WriteFile(e.ctx, e.name, name, strings.NewReader("x"), 0o644); err == nil && e.mustRun("cat "+name) != "x" {
				e.Errorf("wrote %s, which the sprite does not see", name)
			}
		}
	},
	"files: no device and no FIFO is read": func(e env) {
		e.mustRun("mkdir -p /workspace; mkfifo /workspace/fifo; ln -s /dev/zero /workspace/zero")
		for _, name := range []string{"/workspace/fifo", "/workspace/zero", "/dev/zero", "/dev/tty"} {
			if _, err := e.client.ReadFile(e.ctx, e.name, name, 1); err == nil {
				e.Errorf("read %s", name)
			}
		}
	},
	"files: a part is read": func(e env) {
		e.mustRun("mkdir -p /workspace; printf 0123456789 > /workspace/f")
		for query, want := range map[string]string{"&start=2": "23456789", "&end=3": "012", "&start=2&end=5": "234", "&start=8&end=99": "89", "&start=20": "", "&start=5&end=2": ""} {
			status, got := e.requestText(http.MethodGet, "/fs/read?path=/workspace/f"+query, nil)
			if status != http.StatusPartialContent || got != want {
				e.Errorf("read %s = %d, %q, want 206, %q", query, status, got, want)
			}
		}
		if status, _ := e.requestText(http.MethodGet, "/fs/read?path=/workspace/f&start=-1", nil); status != http.StatusBadRequest {
			e.Errorf("read from before the start = %d", status)
		}
	},
	"files: 1 GiB is read in its end": func(e env) {
		e.mustRun("mkdir -p /workspace; truncate -s 1G /workspace/big; printf end >> /workspace/big")
		r, err := e.client.ReadFrom(e.ctx, e.name, "/workspace/big", 1<<30-2)
		if err != nil {
			e.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != "\x00\x00end" {
			e.Errorf("the end = %q, %v", got, err)
		}
	},
	"files: what is large comes whole": func(e env) {
		e.mustRun("mkdir -p /workspace; head -c 20000000 /dev/urandom > /workspace/big")
		want := strings.Fields(e.mustRun("sha256sum /workspace/big"))[0]
		got, err := e.client.ReadFile(e.ctx, e.name, "/workspace/big", 1<<30)
		if sum := fmt.Sprintf("%x", sha256.Sum256(got)); err != nil || sum != want {
			e.Errorf("%d bytes of hash %s, %v, want %s", len(got), sum, err, want)
		}
		if err := e.client.WriteFile(e.ctx, e.name, "/workspace/again", bytes.NewReader(got), 0o600); err != nil {
			e.Fatal(err)
		}
		e.mustRun("cmp /workspace/big /workspace/again")
	},
	"files: a listing of a file is the file": func(e env) {
		e.mustRun("mkdir -p /workspace/empty; echo x > /workspace/f; chmod 640 /workspace/f; ln -s f /workspace/l; ln -s empty /workspace/le; touch -d 2001-02-03T04:05:06Z /workspace/f")
		st, err := e.client.Files().Stat(e.ctx, e.name, "/workspace/f")
		if err != nil || st.Name != "f" || st.Path != "/workspace/f" || st.Type != "file" || st.Size != 2 || st.Mode != "0640" || st.IsDir || st.ModTime.Unix() != 981173106 {
			e.Errorf("Stat = %+v, %v", st, err)
		}
		if st, err := e.client.Files().Stat(e.ctx, e.name, "/workspace/empty"); err != nil || !st.IsDir || st.Type != "directory" {
			e.Errorf("Stat of a folder = %+v, %v", st, err)
		}
		if _, err := e.client.Files().Stat(e.ctx, e.name, "/workspace/none"); !errors.Is(err, fs.ErrNotExist) {
			e.Errorf("Stat of none = %v", err)
		}
		list, err := e.client.Files().List(e.ctx, e.name, "/workspace/le")
		if err != nil || len(list) != 0 {
			e.Errorf("a link to an empty folder = %+v, %v", list, err)
		}
	},
	"files are listed recursively, and by pattern": func(e env) {
		e.mustRun("mkdir -p /workspace/t/a/b; cd /workspace/t; touch x.go y.txt a/z.go a/b/w.go")
		for query, want := range map[string]string{
			"&recursive=true":              "a a/b a/b/w.go a/z.go x.go y.txt",
			"&recursive=true&pattern=*.go": "a/b/w.go a/z.go x.go",
			"&pattern=*.txt":               "y.txt",
		} {
			status, out := e.sendJSON(http.MethodGet, "/fs/list?path=/workspace/t"+query, "")
			var got []string
			entries, _ := out["entries"].([]any)
			for _, entry := range entries {
				got = append(got, strings.TrimPrefix(fmt.Sprint(entry.(map[string]any)["path"]), "/workspace/t/"))
			}
			slices.Sort(got)
			if status != 200 || strings.Join(got, " ") != want || out["count"] != float64(len(got)) {
				e.Errorf("list %s = %d, %q, count %v", query, status, got, out["count"])
			}
		}
		if status, _ := e.sendJSON(http.MethodGet, "/fs/list?path=/workspace/t&pattern=[", ""); status != http.StatusBadRequest {
			e.Errorf("a bad pattern = %d", status)
		}
	},
	"files: names of any bytes": func(e env) {
		e.requireCapability("bytes-names")
		e.mustRun(`mkdir -p /workspace/d; cd /workspace/d; echo x > "$(printf 'by\377te')"; touch "$(printf 'new\nline')" 'quo"te'`)
		list, err := e.client.Files().List(e.ctx, e.name, "/workspace/d")
		if err != nil || len(list) != 3 {
			e.Fatalf("ListDir = %+v, %v", list, err)
		}
		for _, want := range []string{"by\xffte", "new\nline", `quo"te`} {
			if !slices.ContainsFunc(list, func(f sprites.FileInfo) bool { return f.Path == "/workspace/d/"+want }) {
				e.Errorf("no %q in %+v", want, list)
			}
		}
		if got, err := e.client.ReadFile(e.ctx, e.name, "/workspace/d/by\xffte", 9); err != nil || string(got) != "x\n" {
			e.Errorf("read = %q, %v", got, err)
		}
	},
	"files are copied": func(e env) {
		e.mustRun("mkdir -p /workspace/s/sub; cd /workspace/s; echo one > f; chmod 750 f; touch -d 2001-02-03 f; ln -s f l; echo two > sub/g")
		done, err := e.client.Files().Copy(e.ctx, e.name, "/workspace/s", "/workspace/new/t", sprites.CopyOptions{Recursive: true, PreserveAttrs: true})
		if err != nil || done.TotalBytes != 8 || done.Count < 3 {
			e.Errorf("Copy = %+v, %v", done, err)
		}
		if got := e.mustRun("cd /workspace/new/t; cat f sub/g; readlink l; stat -c '%a %y' f | cut -c1-14"); got != "one\ntwo\nf\n750 2001-02-03\n" {
			e.Errorf("copied: %q", got)
		}
		for _, try := range []struct {
			from, to, code string
			recursive      bool
		}{
			{"/workspace/s", "/workspace/u", "EISDIR", false}, {"/workspace/none", "/workspace/u", "ENOENT", true},
			{"/workspace/s", "/workspace/s/sub/s", "EINVAL", true}, {"/workspace/s/f", "/workspace/s", "EISDIR", false},
		} {
			_, err := e.client.Files().Copy(e.ctx, e.name, try.from, try.to, sprites.CopyOptions{Recursive: try.recursive})
			var api *sprites.APIError
			if !errors.As(err, &api) || api.Code != try.code {
				e.Errorf("Copy %s to %s = %v, want %s", try.from, try.to, err, try.code)
			}
		}
	},
	"files are renamed, removed and made accessible": func(e env) {
		e.mustRun("mkdir -p /workspace/d/sub; echo x > /workspace/d/sub/f; mkdir /workspace/full; touch /workspace/full/f")
		if err := e.client.Files().Rename(e.ctx, e.name, "/workspace/d", "/workspace/e"); err != nil {
			e.Error(err)
		}
		if err := e.client.Files().Chmod(e.ctx, e.name, "/workspace/e", 0o700, true); err != nil {
			e.Error(err)
		}
		if got := e.mustRun("cd /workspace; stat -c '%n %a' e e/sub e/sub/f; test ! -e d"); got != "e 700\ne/sub 700\ne/sub/f 700\n" {
			e.Errorf("then: %s", got)
		}
		if err := e.client.Files().Rename(e.ctx, e.name, "/workspace/none", "/workspace/x"); !errors.Is(err, fs.ErrNotExist) {
			e.Errorf("rename of none = %v", err)
		}
		var api *sprites.APIError
		if err := e.client.Files().Remove(e.ctx, e.name, "/workspace/full", false); !errors.As(err, &api) || api.Code != "ENOTEMPTY" {
			e.Errorf("remove of a full folder = %v", err)
		}
		if err := e.client.Files().Remove(e.ctx, e.name, "/workspace/full", true); err != nil {
			e.Error(err)
		}
		if err := e.client.Files().Mkdir(e.ctx, e.name, "/workspace/made/deep"); err != nil {
			e.Error(err)
		}
		if got := e.mustRun("ls -A /workspace/made/deep; cd /workspace; ls -d *"); got != "e\nmade\n" {
			e.Errorf("left: %s", got)
		}
	},
	"files: owners": func(e env) {
		e.mustRun("mkdir -p /workspace; touch /workspace/f")
		uid, gid := strings.TrimSpace(e.mustRun("id -u")), strings.TrimSpace(e.mustRun("id -g"))
		if err := e.client.Files().Chown(e.ctx, e.name, "/workspace/f", uid, gid, false); err != nil {
			e.Error(err)
		}
		if err := e.client.Files().Chown(e.ctx, e.name, "/workspace/f", "no-such-user", "", false); err == nil {
			e.Error("gave a file to nobody")
		}
		for _, call := range []struct{ method, path, body string }{
			{http.MethodPost, "/fs/chown", `{"path":"/workspace/f"}`}, {http.MethodPost, "/fs/chmod", `{"path":"/workspace/f","mode":"9"}`},
			{http.MethodPost, "/fs/rename", `{"source":"/workspace/f"}`}, {http.MethodPost, "/fs/copy", `{"dest":"/workspace/f"}`}, {http.MethodDelete, "/fs/delete", `{}`},
		} {
			if status, out := e.sendJSON(call.method, call.path, call.body); status != http.StatusBadRequest || out["error"] == nil {
				e.Errorf("%s %s = %d, %v", call.path, call.body, status, out)
			}
		}
	},
	"files: asRoot does what sudo does": func(e env) {
		if slices.Contains(e.target.Capabilities, "translated") {
			e.asRootIsRefused()
			return
		}
		if code, _, _ := e.runScript("sudo true", nil); code != 0 {
			e.asRootIsRefused()
			return
		}
		owner, want := `"uid":7,"gid":"sprite"`, "640 7 1000 new\n644 0 0 f\n644 0 0 moved\n1000 own\n"
		if code, _, _ := e.runScript("sudo -u '#7' true", nil); code != 0 { // the sprite has one user, whom root takes for itself
			owner, want = `"uid":0,"gid":"root"`, "640 0 0 new\n644 0 0 f\n644 0 0 moved\n0 own\n"
		}
		e.mustRun("mkdir -p /workspace/d; echo old > /workspace/d/f; sudo chown -R 0:0 /workspace/d; sudo chmod 0 /workspace/d")
		if status, _ := e.sendJSON(http.MethodPost, "/fs/chmod", `{"path":"/workspace/d/f","mode":"0600"}`); status != http.StatusForbidden {
			e.Errorf("without asRoot chmod of root's file = %d", status)
		}
		for _, call := range []struct{ method, path, body string }{
			{http.MethodPut, "/fs/write?asRoot=true&mode=0640&path=/workspace/d/new", `{"a":1}`},
			{http.MethodPut, "/fs/write?asRoot=true&path=/workspace/d/f", "replaced"},
			{http.MethodPost, "/fs/chmod", `{"path":"/workspace/d/f","mode":"0644","asRoot":true}`},
			{http.MethodPost, "/fs/copy", `{"source":"/workspace/d/f","dest":"/workspace/d/copy","asRoot":true}`},
			{http.MethodPost, "/fs/rename", `{"source":"/workspace/d/copy","dest":"/workspace/moved","asRoot":true}`},
			{http.MethodPost, "/fs/chown", `{"path":"/workspace/d/new",` + owner + `,"asRoot":true}`},
			{http.MethodGet, "/fs/read?asRoot=true&path=/workspace/d/new", ""},
			{http.MethodGet, "/fs/list?asRoot=true&path=/workspace/d", ""},
		} {
			if status, out := e.sendJSON(call.method, call.path, call.body); status != http.StatusOK {
				e.Errorf("%s %s %s = %d, %v", call.method, call.path, call.body, status, out)
			}
		}
		e.mustRun("ls /workspace; touch /workspace/own")
		if got := e.mustRun("cd /workspace; sudo sh -c 'cd d; stat -c \"%a %u %g %n\" new f; cd ..; stat -c \"%a %u %g %n\" moved; stat -c \"%u %n\" own'"); got != want {
			e.Errorf("the files are %q, want %q", got, want)
		}
		if status, out := e.sendJSON(http.MethodDelete, "/fs/delete?path=/workspace/d&recursive=true&asRoot=true", ""); status != http.StatusOK {
			e.Errorf("delete = %d, %v", status, out)
		}
		e.mustRun("test ! -e /workspace/d")
	},
	"files are watched": func(e env) {
		e.mustRun("mkdir -p /workspace/w/old")
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		w, err := e.client.Files().Watch(ctx, e.name, []string{"/workspace/w"}, true)
		if err != nil {
			e.Fatal(err)
		}
		defer w.Close()
		if first, err := w.Next(ctx); err != nil || first.Type != "subscribed" { // nothing is missed from then on
			e.Fatalf("the first event is %+v, %v", first, err)
		}
		e.mustRun("mkdir -p /workspace/w/new/deep; echo x > /workspace/w/new/deep/f; echo y > /workspace/w/old/g; rm /workspace/w/old/g")
		want := []string{"create /workspace/w/new", "create /workspace/w/new/deep/f", "create /workspace/w/old/g", "remove /workspace/w/old/g"}
		for len(want) > 0 {
			ev, err := w.Next(ctx)
			if err != nil {
				e.Fatalf("Next = %v, still waiting for %q", err, want)
			}
			if ev.Type == "event" && ev.Timestamp.IsZero() {
				e.Errorf("no time in %+v", ev)
			}
			want = slices.DeleteFunc(want, func(s string) bool { return s == ev.Event+" "+ev.Path })
		}
	},
	"a watch of what is not there says so": func(e env) {
		w, err := e.client.Files().Watch(e.ctx, e.name, []string{"/workspace/none"}, false)
		if err != nil {
			e.Fatal(err)
		}
		defer w.Close()
		if ev, err := w.Next(e.ctx); err != nil || ev.Type != "error" || ev.Path != "/workspace/none" || ev.Message == "" {
			e.Errorf("Next = %+v, %v", ev, err)
		}
		if _, err := e.client.Files().Watch(e.ctx, "no-such-sprite", []string{"/workspace"}, false); !errors.Is(err, sprites.ErrNotFound) {
			e.Errorf("a watch of no sprite = %v", err)
		}
	},
	"a restore ends a watch": func(e env) {
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		w, err := e.client.Files().Watch(e.ctx, e.name, []string{"/workspace"}, false)
		if err != nil {
			e.Fatal(err)
		}
		defer w.Close()
		if err := e.client.Restore(e.ctx, e.name, p.ID); err != nil {
			e.Fatal(err)
		}
		for err == nil {
			_, err = w.Next(e.ctx)
		}
		if e.ctx.Err() != nil {
			e.Error("the watch went on")
		}
	},
	"a restore does not wait for a slow reader, who gets all": func(e env) {
		e.mustRun("mkdir -p /workspace; head -c 30000000 /dev/urandom > /workspace/big")
		want := strings.Fields(e.mustRun("sha256sum /workspace/big"))[0]
		p, err := e.client.Checkpoint(e.ctx, e.name, "")
		if err != nil {
			e.Fatal(err)
		}
		r, err := e.client.ReadFrom(e.ctx, e.name, "/workspace/big", 0)
		if err != nil {
			e.Fatal(err)
		}
		defer r.Close()
		sum := sha256.New()
		if _, err := io.CopyN(sum, r, 1000); err != nil {
			e.Fatal(err)
		}
		e.mustRun("echo other > /workspace/big.new; mv /workspace/big.new /workspace/big")
		if err := e.client.Restore(e.ctx, e.name, p.ID); err != nil {
			e.Fatal(err)
		}
		if _, err := io.Copy(sum, r); err != nil || fmt.Sprintf("%x", sum.Sum(nil)) != want {
			e.Errorf("read %x, %v, want %s", sum.Sum(nil), err, want)
		}
	},
}

// requestText makes a request below the sprite's path and returns the answer's body.
func (e env) requestText(method, path string, body io.Reader) (status int, text string) {
	e.Helper()
	req, err := http.NewRequestWithContext(e.ctx, method, e.target.BaseURL+"/v1/sprites/"+e.name+path, body)
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+e.target.Token)
	res := e.doRequest(req)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		e.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func (e env) asRootIsRefused() {
	e.Helper()
	e.mustRun("mkdir -p /workspace; touch /workspace/f")
	for path, body := range map[string]string{
		"/fs/chmod": `{"path":"/workspace/f","mode":"0644","asRoot":true}`, "/fs/chown": `{"path":"/workspace/f","uid":0,"asRoot":true}`,
		"/fs/copy": `{"source":"/workspace/f","dest":"/workspace/g","asRoot":true}`, "/fs/rename": `{"source":"/workspace/f","dest":"/workspace/g","asRoot":true}`,
	} {
		if status, out := e.sendJSON(http.MethodPost, path, body); status != http.StatusForbidden || out["code"] != "EPERM" {
			e.Errorf("%s = %d, %v", path, status, out)
		}
	}
	for _, call := range []struct{ method, path string }{
		{http.MethodDelete, "/fs/delete?path=/workspace/f&asRoot=true"}, {http.MethodPut, "/fs/write?path=/workspace/f&asRoot=true"},
		{http.MethodGet, "/fs/read?path=/workspace/f&asRoot=true"}, {http.MethodGet, "/fs/list?path=/workspace&asRoot=true"},
	} {
		if status, out := e.sendJSON(call.method, call.path, ""); status != http.StatusForbidden || out["code"] != "EPERM" {
			e.Errorf("%s %s = %d, %v", call.method, call.path, status, out)
		}
	}
}
