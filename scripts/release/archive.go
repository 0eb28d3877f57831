package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// writeArchive writes a directory as a gzipped tar, under the directory's name. Names are in order, all files have the same
// time and belong to root, and modes are 755 or 644.
func writeArchive(file, dir string, at time.Time) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	t := tar.NewWriter(z)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(dir), path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return writeEntry(t, path, rel, info, at)
	})
	return errors.Join(err, t.Close(), z.Close())
}

func writeEntry(t *tar.Writer, path, name string, info fs.FileInfo, at time.Time) error {
	h := &tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, ModTime: at, Format: tar.FormatPAX}
	if info.Mode()&0o111 != 0 {
		h.Mode = 0o755
	}
	if info.IsDir() {
		h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		return t.WriteHeader(h)
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}
