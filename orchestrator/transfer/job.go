package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/bytecount"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Place is one end of a copy.
type Place struct {
	Sprite string // "" for this machine
	path   string // "-" for a standard stream
	into   bool   // it was written as a folder
}

var placeInSprite = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([a-z0-9](?:[a-z0-9-]*[a-z0-9])?):(.*)$`) })

func ParsePlace(text string) Place {
	p := Place{path: text, into: strings.HasSuffix(text, "/")}
	if m := placeInSprite().FindStringSubmatch(text); m != nil {
		p.Sprite, p.path = m[1], m[2]
		if !path.IsAbs(p.path) {
			p.path = path.Join("/home/sprite", p.path)
		}
		p.path, p.into = path.Clean(p.path), p.into || m[2] == ""
	}
	return p
}

func (p Place) isStdio() bool { return p.Sprite == "" && p.path == "-" }

// baseName is the name that a copy of p has in a folder.
func (p Place) baseName() string {
	if p.Sprite != "" {
		return path.Base(p.path)
	}
	abs, err := filepath.Abs(p.path)
	if err != nil {
		return filepath.Base(p.path)
	}
	return filepath.Base(abs)
}

// copied is the result of a copy.
type copied struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Skipped []string `json:"skipped"`
}

// copyJob is one copy at work.
type copyJob struct {
	console   *cli.Console
	c         *sprites.Client
	from, to  Place
	recursive bool
	done      copied
	total     uint64 // bytes, 0 if that is not known
	progress  *cli.Progress
}

// showProgress shows how far the copy has come: n bytes of the present file, after those before it.
func (j *copyJob) showProgress(n int64) {
	j.progress.Show("copied", uint64(j.done.Bytes+n), j.total, cli.FormatSize)
}

// observeContent returns the content of a file; reading it shows how far the copy has come.
func (j *copyJob) observeContent(content io.Reader) io.Reader {
	return io.TeeReader(content, &bytecount.Counter{Tell: j.showProgress})
}

// copyFile copies one file and counts it.
func (j *copyJob) copyFile(sink copySink, it copyItem) error {
	r, err := it.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if it.rel == "" && j.total == 0 {
		j.total = uint64(max(it.size, 0)) // one file of a sprite
	}
	counted := &bytecount.Counter{Tell: j.showProgress}
	content := io.TeeReader(r, counted)
	if f, ok := r.(*os.File); ok && it.mode.IsRegular() {
		content = bytecount.File(f, it.size, j.showProgress) // which can be sent again should the connection break
	}
	if err := sink.file(it.rel, content, it.mode.Perm()); err != nil {
		return err
	}
	j.done.Files++
	j.done.Bytes += max(it.size, counted.N)
	return nil
}

// copyItem is one file or folder on its way. rel is below the copy's top, with slashes; "" for that itself.
type copyItem struct {
	rel    string
	mode   fs.FileMode
	size   int64
	folder bool
	open   func() (io.ReadCloser, error)
}

// errFolder asks for -r.
func errFolder(p Place) error {
	return cli.UsageErrorf("%s is a folder: copy it with -r", p.path)
}

// copySink takes files and folders, by their names below the copy's top. Folders come before their content.
type copySink interface {
	folder(rel string) error
	file(rel string, content io.Reader, mode fs.FileMode) error
	mode(rel string, mode fs.FileMode) error
	close() error
}

// node is a file, folder or link on its way. Name is below the copy's top, with slashes; "." is the top itself.
type node struct {
	*tar.Header
	body io.Reader
}

// reader gives all nodes of a folder, those above others first. A body is read before the next node is given.
type reader func(ctx context.Context, give func(node) error) error

// countNode counts a node that was copied.
func (j *copyJob) countNode(n node) {
	if n.Typeflag == tar.TypeDir {
		return
	}
	j.done.Files++
	j.done.Bytes += n.Size
	j.showProgress(0)
}

// replaceBy makes a link in the place of a file or link that is there.
func replaceBy(root *os.Root, name string, link func() error) error {
	err := link()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := root.Remove(name); err != nil {
		return err
	}
	return link()
}

// lastWords keeps the end of the output of a command, for an error.
type lastWords struct{ text []byte }

func (l *lastWords) Write(p []byte) (int, error) {
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-1<<10):]
	return len(p), nil
}

func (l *lastWords) String() string { return cli.Clean(strings.TrimSpace(string(l.text))) }
