package connect

import (
	"crypto/tls"
	"os"
	"sync"
)

// certificate is the certificate of a server and its private key, in files that a renewal may replace while the server runs. It is
// safe for concurrent use.
type certificate struct {
	cert, key string // paths

	mu   sync.Mutex
	read [2]os.FileInfo // guarded by mu: of the files when pair was read
	pair *tls.Certificate
}

// loadCertificate fails if the files do not hold a certificate and its key.
func loadCertificate(cert, key string) (*certificate, error) {
	c := &certificate{cert: cert, key: key}
	return c, c.readFiles()
}

// readFiles reads the files, unless they are as when they were last read.
func (c *certificate) readFiles() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var now [2]os.FileInfo
	same := c.pair != nil
	for i, path := range []string{c.cert, c.key} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		was := c.read[i]
		same = same && os.SameFile(was, info) && was.ModTime().Equal(info.ModTime()) && was.Size() == info.Size()
		now[i] = info
	}
	if same {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.pair, c.read = &pair, now
	}
	return err
}

// findPair returns the certificate for a connection: the present one of the files, or, while these do not fit each other, the one before.
func (c *certificate) findPair(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	_ = c.readFiles() // a renewal may be under way
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pair, nil
}
