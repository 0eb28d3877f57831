package board

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// RemoveFile removes a file of the repository if it exists.
func (b *Board) RemoveFile(name string) error {
	if err := b.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// RenameFile renames a file of the repository.
func (b *Board) RenameFile(from, to string) error { return b.root.Rename(from, to) }

// ReplaceFile writes a file of the repository, with the folders above it.
func (b *Board) ReplaceFile(name string, text []byte) error {
	_, err := b.root.Lstat(name)
	if err := replaceFile(b.root, name, text, b.commits.sync); err != nil {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return syncDir(b.root, path.Dir(name))
	}
	return nil
}

// LogPath returns the file of the log of a process, "" if the event that started it has an id that cannot name a file.
func LogPath(event string) string {
	if !consistsOf(event, letters+digits+"_-") {
		return ""
	}
	return path.Join(logsDir, event+".log")
}

// AppendLog appends to the log of a process. Logs are not synced.
func (b *Board) AppendLog(event string, text io.Reader) error {
	name := LogPath(event)
	if name == "" {
		return fmt.Errorf("%q cannot name a log", event)
	}
	f, err := openMade(b.root, name, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, text)
	return errors.Join(err, f.Close())
}

// FS returns the files of the repository. Links that lead out of it are not followed.
func (b *Board) FS() fs.FS { return b.root.FS() }
