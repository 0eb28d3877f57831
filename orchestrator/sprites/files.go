package sprites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	stdpath "path"
	"slices"
	"strconv"
	"strings"
)

// ErrTooLarge is returned by ReadFile for a file that is longer than its limit.
var ErrTooLarge = errors.New("file is larger than the limit")

// ReadFile returns a whole file of at most limit bytes; a longer one is [ErrTooLarge].
func (c *Client) ReadFile(ctx context.Context, name, path string, limit int64) ([]byte, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	r, err := c.ReadFrom(ctx, name, path, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, describeError(err, "read %s in %s", path, name)
	}
	if int64(len(data)) > limit {
		return nil, describeError(ErrTooLarge, "read %s in %s, at most %d bytes", path, name, limit)
	}
	return data, nil
}

// ReadFrom streams a file from offset on: nothing when offset is its length or more. A connection that breaks is made
// again where the reading stood. The caller closes the reader; ctx bounds the whole reading.
func (c *Client) ReadFrom(ctx context.Context, name, path string, offset int64) (io.ReadCloser, error) {
	f := &fileReader{c: c, ctx: ctx, sprite: name, path: path, at: offset}
	err := c.retrySafely(ctx, true, f.openContent)
	if err != nil {
		return nil, describeError(err, "read %s in %s", path, name)
	}
	return f, nil
}

// fileReader is the reading of one file over as many requests as it takes.
type fileReader struct {
	c            *Client
	ctx          context.Context // of ReadFrom, which bounds the whole reading
	sprite, path string
	at           int64
	body         io.ReadCloser
}

func (f *fileReader) openContent() error {
	query := pathQuery(f.path)
	if f.at > 0 {
		query.Set("start", strconv.FormatInt(f.at, 10))
	}
	res, err := f.c.sendOnce(f.ctx, request{method: http.MethodGet, path: spritePath(f.sprite, "fs", "read"), query: query})
	if err != nil {
		var api *APIError
		if f.at > 0 && errors.As(err, &api) && api.Status == http.StatusRequestedRangeNotSatisfiable {
			f.body = http.NoBody
			return nil
		}
		return err
	}
	f.body = res.Body
	skip := f.at
	if res.StatusCode == http.StatusPartialContent {
		skip = 0
		var start int64
		if text := res.Header.Get("Content-Range"); strings.HasPrefix(text, "bytes ") {
			if _, err := fmt.Sscanf(text, "bytes %d-", &start); err != nil || start != f.at {
				res.Body.Close()
				return fmt.Errorf("asked for bytes from %d on and got %q: %w", f.at, text, errOdd)
			}
		}
	}
	// A server that ignored the range also sends the bytes before it.
	if _, err := io.CopyN(io.Discard, res.Body, skip); err != nil && err != io.EOF {
		res.Body.Close()
		return f.c.connError(err)
	}
	return nil
}

// Read goes on after a cut as long as each connection brings something.
func (f *fileReader) Read(p []byte) (int, error) {
	n, err := f.body.Read(p)
	f.at += int64(n)
	if err == nil || err == io.EOF {
		return n, err
	}
	if n > 0 {
		return n, nil // the next Read finds the error again
	}
	f.body.Close()
	f.body = http.NoBody
	if f.ctx.Err() != nil {
		return 0, f.ctx.Err()
	}
	err = f.c.connError(err)
	again := 0
	reopened := f.c.retrySafely(f.ctx, true, func() error {
		if again++; again == 1 {
			return err // the cut itself is the first failure
		}
		if err := f.openContent(); err != nil {
			return err
		}
		n, err = f.body.Read(p)
		f.at += int64(n)
		if n > 0 || err == nil || err == io.EOF {
			return nil
		}
		f.body.Close()
		f.body = http.NoBody
		return f.c.connError(err)
	})
	if reopened != nil {
		return 0, reopened
	}
	if n > 0 && err != io.EOF {
		err = nil
	}
	return n, err
}

func (f *fileReader) Close() error { return f.body.Close() }

// WriteFile replaces a file with the contents of r and makes its parent directories. mode holds permission bits. A connection
// that breaks is tried again when r is also an io.ReaderAt and io.Seeker, as files and byte readers are.
func (c *transport) WriteFile(ctx context.Context, name, path string, r io.Reader, mode uint32) error {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	if r == nil {
		r = strings.NewReader("")
	}
	query := pathQuery(path)
	query.Set("mode", fmt.Sprintf("%04o", mode&0o7777))
	query.Set("mkdirParents", "true")
	req := request{method: http.MethodPut, path: spritePath(name, "fs", "write"), query: query, body: r, size: -1}
	content, again := replayableRest(r)
	if !again {
		return describeError(c.attemptRequest(ctx, req, nil), "write %s in %s", path, name)
	}
	err := c.retrySafely(ctx, true, func() error {
		req.body, req.size = io.NewSectionReader(content, content.from, content.size), content.size
		var answer json.RawMessage
		if err := c.attemptRequest(ctx, req, &answer); err != nil {
			return err
		}
		var wrote struct{ Size *int64 }
		if json.Unmarshal(answer, &wrote) == nil && wrote.Size != nil && *wrote.Size != content.size {
			return fmt.Errorf("%d of %d bytes were written: %w", *wrote.Size, content.size, errOdd)
		}
		return nil
	})
	return describeError(err, "write %s in %s", path, name)
}

// section is the rest of a reader that can be read again.
type section struct {
	io.ReaderAt
	from, size int64
}

// replayableRest returns the rest of r as something that can be read as often as need be.
func replayableRest(r io.Reader) (section, bool) {
	at, ok := r.(io.ReaderAt)
	seeker, too := r.(io.Seeker)
	if !ok || !too {
		return section{}, false
	}
	from, err := seeker.Seek(0, io.SeekCurrent)
	if err != nil {
		return section{}, false
	}
	end, err := seeker.Seek(0, io.SeekEnd)
	if err != nil {
		return section{}, false
	}
	if _, err := seeker.Seek(from, io.SeekStart); err != nil {
		return section{}, false
	}
	return section{at, from, end - from}, true
}

// List returns the entries of a directory sorted by name, or the one entry of a file.
func (c Files) List(ctx context.Context, name, path string) ([]FileInfo, error) {
	entries, _, err := c.listFiles(ctx, name, pathQuery(path))
	return entries, describeError(err, "list %s in %s", path, name)
}

// Tree returns all that is below a directory, sorted by path; pattern, unless it is "", is a glob for names.
func (c Files) Tree(ctx context.Context, name, path, pattern string) ([]FileInfo, error) {
	query := pathQuery(path)
	query.Set("recursive", "true")
	if pattern != "" {
		query.Set("pattern", pattern)
	}
	entries, _, err := c.listFiles(ctx, name, query)
	return entries, describeError(err, "list %s in %s", path, name)
}

// Some returns at most so many entries of a directory, sorted by name, and how many it has.
func (c Files) Some(ctx context.Context, name, path string, most int) (entries []FileInfo, total int, err error) {
	query := pathQuery(path)
	query.Set("limit", strconv.Itoa(most))
	entries, total, err = c.listFiles(ctx, name, query)
	return entries[:min(len(entries), most)], max(total, len(entries)), describeError(err, "list %s in %s", path, name)
}

func (c Files) listFiles(ctx context.Context, name string, query url.Values) (_ []FileInfo, count int, err error) {
	var out struct {
		Entries listOf[FileInfo] `json:"entries"`
		Count   int              `json:"count"`
	}
	err = c.sendRequest(ctx, request{method: http.MethodGet, path: spritePath(name, "fs", "list"), query: query}, &out)
	if err == nil && !out.Entries.told {
		err = fmt.Errorf("the answer has no list of entries: %w", errOdd)
	}
	entries := out.Entries.items
	for i, e := range entries {
		if len(e.PathBytes) > 0 {
			entries[i].Path, entries[i].Name = string(e.PathBytes), stdpath.Base(string(e.PathBytes))
		}
	}
	slices.SortFunc(entries, func(a, b FileInfo) int { return strings.Compare(a.Path, b.Path) })
	return entries, out.Count, err
}

// Remove deletes a file, an empty directory, or with recursive a whole tree.
func (c Files) Remove(ctx context.Context, name, path string, recursive bool) error {
	query := pathQuery(path)
	if recursive {
		query.Set("recursive", "true")
	}
	return describeError(c.deleteResource(ctx, spritePath(name, "fs", "delete"), query), "remove %s in %s", path, name)
}

func pathQuery(path string) url.Values {
	return url.Values{"path": {path}, "workingDir": {"/"}}
}
