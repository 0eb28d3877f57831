package sprites

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// ErrTooLarge is returned by ReadFile for a file that is longer than its limit.
var ErrTooLarge = errors.New("file is larger than the limit")

// ReadFile returns a whole file of at most limit bytes; a longer one is [ErrTooLarge].
func (c *Client) ReadFile(ctx context.Context, name, path string, limit int64) ([]byte, error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	r, err := c.ReadFrom(ctx, name, path, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, describe(err, "read %s in %s", path, name)
	}
	if int64(len(data)) > limit {
		return nil, describe(ErrTooLarge, "read %s in %s, at most %d bytes", path, name, limit)
	}
	return data, nil
}

// ReadFrom streams a file from offset on: nothing when offset is its length or more. The caller closes the reader; ctx
// bounds the whole reading.
func (c *Client) ReadFrom(ctx context.Context, name, path string, offset int64) (io.ReadCloser, error) {
	query := pathQuery(path)
	if offset > 0 {
		query.Set("start", strconv.FormatInt(offset, 10))
	}
	res, err := c.do(ctx, http.MethodGet, spritePath(name, "fs", "read"), query, nil)
	if err != nil {
		var api *APIError
		if offset > 0 && errors.As(err, &api) && api.Status == http.StatusRequestedRangeNotSatisfiable {
			return io.NopCloser(http.NoBody), nil
		}
		return nil, describe(err, "read %s in %s", path, name)
	}
	if offset > 0 && res.StatusCode != http.StatusPartialContent {
		// The server ignored the range: skip what was not asked for.
		if _, err := io.CopyN(io.Discard, res.Body, offset); err != nil && err != io.EOF {
			res.Body.Close()
			return nil, describe(err, "read %s in %s", path, name)
		}
	}
	return res.Body, nil
}

// WriteFile replaces a file with what r holds and makes its parent directories. mode holds permission bits.
func (c *Client) WriteFile(ctx context.Context, name, path string, r io.Reader, mode uint32) error {
	ctx, cancel := bounded(ctx)
	defer cancel()
	query := pathQuery(path)
	query.Set("mode", fmt.Sprintf("%04o", mode&0o7777))
	query.Set("mkdirParents", "true")
	if r == nil {
		r = http.NoBody
	}
	res, err := c.do(ctx, http.MethodPut, spritePath(name, "fs", "write"), query, r)
	if err != nil {
		return describe(err, "write %s in %s", path, name)
	}
	return res.Body.Close()
}

// ListDir returns the entries of a directory sorted by name, or the one entry of a file.
func (c *Client) ListDir(ctx context.Context, name, path string) ([]FileInfo, error) {
	var out struct {
		Entries []FileInfo `json:"entries"`
	}
	err := c.call(ctx, http.MethodGet, spritePath(name, "fs", "list"), pathQuery(path), nil, &out)
	return out.Entries, describe(err, "list %s in %s", path, name)
}

// Remove deletes a file, an empty directory, or with recursive a whole tree.
func (c *Client) Remove(ctx context.Context, name, path string, recursive bool) error {
	query := pathQuery(path)
	if recursive {
		query.Set("recursive", "true")
	}
	err := c.call(ctx, http.MethodDelete, spritePath(name, "fs", "delete"), query, nil, nil)
	return describe(err, "remove %s in %s", path, name)
}

func pathQuery(path string) url.Values {
	return url.Values{"path": {path}, "workingDir": {"/"}}
}
