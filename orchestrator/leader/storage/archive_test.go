package storage

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/spritekit/fault"
)

// member is one part of a hand-made backup.
type member struct {
	name, content string
	kind          byte // 0 = a regular file
}

// made is a backup of members, with sums of them unless it brings its own.
func made(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w, sums, own := tar.NewWriter(&b), map[string]string{}, false
	add := func(m member) {
		h := &tar.Header{Name: m.name, Typeflag: m.kind, Size: int64(len(m.content)), Mode: 0o600}
		if m.kind == tar.TypeSymlink {
			h.Linkname, h.Size, m.content = m.content, 0, ""
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(m.content)); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(m.content))
		sums[m.name] = hex.EncodeToString(sum[:])
		own = own || m.name == memberSums
	}
	for _, m := range members {
		add(m)
	}
	if !own {
		raw, err := json.Marshal(sums)
		if err != nil {
			t.Fatal(err)
		}
		add(member{name: memberSums, content: string(raw)})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHostileBackups(t *testing.T) {
	t.Parallel()
	info := member{name: memberInfo, content: `{"format":1,"schema":1}`}
	db := member{name: memberStore, content: "pages"}
	sum := sha256.Sum256([]byte("a bundle"))
	bundle := member{name: memberBundle + hex.EncodeToString(sum[:]) + ".bundle", content: "a bundle"}
	whole := made(t, info, db, bundle)
	for name, tc := range map[string]struct {
		raw  []byte
		code string
	}{
		"whole":                 {whole, ""},
		"empty":                 {nil, "backup_damaged"},
		"no tar":                {[]byte(strings.Repeat("no tar ", 500)), "backup_damaged"},
		"cut off in the store":  {whole[:2100], "backup_damaged"},
		"cut off before sums":   {whole[:3584], "backup_damaged"},
		"a bit fell over":       {flipped(whole, bytes.Index(whole, []byte("pages"))), "backup_damaged"},
		"no info":               {made(t, db), "backup_damaged"},
		"no store":              {made(t, info), "backup_damaged"},
		"two stores":            {made(t, info, db, db), "backup_damaged"},
		"out of the folder":     {made(t, info, db, member{name: "../evil", content: "x"}), "backup_damaged"},
		"out by a bundle":       {made(t, info, db, member{name: "bundles/../../evil", content: "x"}), "backup_damaged"},
		"an absolute path":      {made(t, info, db, member{name: "/tmp/evil", content: "x"}), "backup_damaged"},
		"a link for a store":    {made(t, info, member{memberStore, "/etc/passwd", tar.TypeSymlink}), "backup_damaged"},
		"a bundle of another":   {made(t, info, db, member{name: bundle.name, content: "another bundle"}), "backup_damaged"},
		"a member unlisted":     {made(t, info, db, member{name: memberSums, content: `{}`}), "backup_damaged"},
		"something behind sums": {made(t, info, db, member{name: memberSums, content: `{}`}, bundle), "backup_damaged"},
		"sums that are none":    {made(t, info, db, member{name: memberSums, content: `[`}), "backup_damaged"},
		"a newer format":        {made(t, member{name: memberInfo, content: `{"format":2,"lattice":"9.9"}`}, member{name: "new-thing"}), "backup_newer"},
	} {
		dir := filepath.Join(t.TempDir(), "in")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		_, err := readArchive(t.Context(), bytes.NewReader(tc.raw), dir)
		var p *fault.Error
		switch {
		case tc.code == "" && err != nil:
			t.Errorf("%s: readArchive = %v", name, err)
		case tc.code != "" && (!errors.As(err, &p) || p.Fault.Code != tc.code):
			t.Errorf("%s: readArchive = %v, want %s", name, err, tc.code)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "evil")); err == nil {
			t.Errorf("%s: it wrote outside of its folder", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := VerifyBackup(ctx, bytes.NewReader(whole)); !errors.Is(err, context.Canceled) {
		t.Errorf("VerifyBackup that was stopped = %v, want context.Canceled", err)
	}
}

func flipped(raw []byte, at int) []byte {
	out := bytes.Clone(raw)
	out[at] ^= 1
	return out
}
