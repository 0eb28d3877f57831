package rest

import (
	"net/http"
	"sync"
)

// maxKept is how many answers the cache holds, and how many bytes an answer in it may have.
const (
	maxKept      = 256
	maxKeptBytes = 1 << 20
)

// cache holds answers with their ETag. An answer that is unchanged does not count against GitHub's limit.
type cache struct {
	mu    sync.Mutex
	kept  map[string]*answer
	order []string // of insertion
}

type answer struct {
	etag, next string
	body       []byte
}

// offerKept names the kept answer in a request, and returns it.
func (c *cache) offerKept(r *http.Request) *answer {
	if r.Method != http.MethodGet {
		return nil
	}
	c.mu.Lock()
	a := c.kept[r.URL.String()]
	c.mu.Unlock()
	if a != nil {
		r.Header.Set("If-None-Match", a.etag)
	}
	return a
}

// keepAnswer stores an answer. When the cache is full the oldest one makes room.
func (c *cache) keepAnswer(r *http.Request, res *http.Response, body []byte, next string) {
	etag := res.Header.Get("ETag")
	if r.Method != http.MethodGet || etag == "" || res.StatusCode != http.StatusOK || len(body) > maxKeptBytes {
		return
	}
	key := r.URL.String()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil {
		c.kept = map[string]*answer{}
	}
	if c.kept[key] == nil {
		if len(c.order) == maxKept {
			delete(c.kept, c.order[0])
			c.order = c.order[1:]
		}
		c.order = append(c.order, key)
	}
	c.kept[key] = &answer{etag, next, body}
}
