package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCheckVersion(t *testing.T) {
	for _, tt := range []struct{ stamped, changelog, want, err string }{
		{"v1.2.0", "# Changelog\n\n## [1.2.0] - 2026-01-02\n", "1.2.0", ""},
		{"v1.2.0", "# Changelog\n\n## [Unreleased]\n", "", "CHANGELOG.md has no section [1.2.0]"},
		{"v0.0.0-20261123081248-0ccdd827971f", "", "0.0.0-20261123081248-0ccdd827971f", ""},
		{"v1.2.1-0.20261123081248-0ccdd827971f", "", "1.2.1-0.20261123081248-0ccdd827971f", ""},
		{"v1.2.0+dirty", "\n## [1.2.0]", "", "the checkout has changes"},
		{"(devel)", "", "", "needs a git checkout"},
	} {
		got, err := checkVersion(tt.stamped, tt.changelog)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("checkVersion(%q, %q) = %q, %v, want %q, %q", tt.stamped, tt.changelog, got, err, tt.want, tt.err)
		}
	}
}

// Debian orders a version with ~ before the one without it.
func TestDebVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.2.0": "1.2.0", "1.2.0-rc.1": "1.2.0~rc.1", "0.0.0-20261123081248-0ccdd827971f": "0.0.0~20261123081248-0ccdd827971f",
	} {
		if got := debVersion(version); got != want {
			t.Errorf("debVersion(%q) = %q, want %q", version, got, want)
		}
	}
}

func TestReadLicences(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		ids   string
		err   bool
	}{
		"one":          {map[string]string{"LICENSE": "Permission is hereby granted, free of charge,\n to any person obtaining a copy"}, "MIT", false},
		"two":          {map[string]string{"COPYING.md": "Mozilla Public License Version 2.0", "LICENSE.BSD": "Neither the name of X"}, "MPL-2.0,BSD-3-Clause", false},
		"with a grant": {map[string]string{"LICENSE": "Neither the name of X", "PATENTS": "grants"}, "BSD-3-Clause", false},
		"not accepted": {map[string]string{"COPYING": "GNU GENERAL PUBLIC LICENSE"}, "", true},
		"none":         {map[string]string{"README": "Neither the name of X"}, "", true},
	} {
		dir := t.TempDir()
		for file, text := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		ids, text, err := readLicences(dir)
		if got := strings.Join(ids, ","); got != tt.ids || (err != nil) != tt.err {
			t.Errorf("%s: licences %s, error %v", name, got, err)
		}
		for file, want := range tt.files {
			if err == nil && file != "README" && !strings.Contains(text, want) {
				t.Errorf("%s: the text lacks %s", name, file)
			}
		}
	}
}

// An archive is the same whatever times and modes the directory has.
func TestWriteArchive(t *testing.T) {
	at := time.Unix(1700000000, 0)
	write := func(mode os.FileMode, mtime time.Time) []byte {
		dir := filepath.Join(t.TempDir(), "tree")
		program, text := filepath.Join(dir, "lattice"), filepath.Join(dir, "docs", "a.md")
		err := errors.Join(writeFile(program, []byte("#!/bin/sh\n"), mode|0o100), writeFile(text, []byte("text\n"), mode),
			os.Chtimes(program, mtime, mtime), os.Chtimes(text, mtime, mtime))
		file := filepath.Join(t.TempDir(), "a.tar.gz")
		if err := errors.Join(err, writeArchive(file, dir, at)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	first := write(0o600, time.Unix(1, 0))
	if second := write(0o644, time.Unix(2, 0)); !bytes.Equal(first, second) {
		t.Error("two archives of the same files differ")
	}
	z, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
		if !h.ModTime.Equal(at) {
			t.Errorf("%s has the time %s", h.Name, h.ModTime)
		}
	}
	if want := "drwxr-xr-x tree/,drwxr-xr-x tree/docs/,-rw-r--r-- tree/docs/a.md,-rwxr-xr-x tree/lattice"; strings.Join(got, ",") != want {
		t.Errorf("the archive holds %s, want %s", strings.Join(got, ","), want)
	}
}

func TestGzipBytes(t *testing.T) {
	data, err := gzipBytes([]byte("text"))
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(z); err != nil || string(got) != "text" {
		t.Errorf("read %q, error %v", got, err)
	}
}
