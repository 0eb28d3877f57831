package attest

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/spritekit/durable"
)

const (
	privateBlock = "PRIVATE KEY"
	publicBlock  = "PUBLIC KEY"
	maxKeyFile   = 4 << 10
)

// KeyID returns the name of a public key: the sha256 of its bytes.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:])
}

// LoadKey reads the private key in the file path, which it makes if there is none. Processes that make it at the same time
// get the same key.
func LoadKey(path string) (ed25519.PrivateKey, error) {
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := makeKey(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the signing key: %w", err)
	}
	return readKey(path)
}

func readKey(path string) (ed25519.PrivateKey, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the signing key: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("the signing key %s must be a file that only its owner may read", path)
	case info.Size() > maxKeyFile:
		return nil, fmt.Errorf("the signing key %s is larger than a key", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the signing key: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil || block.Type != privateBlock {
		return nil, fmt.Errorf("the signing key %s is not a PEM file with a private key", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the signing key %s: %w", path, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("the signing key %s is not an ed25519 key", path)
	}
	return key, nil
}

// makeKey writes a new key. It writes a temporary file first and links it, so that path never names half a key.
func makeKey(path string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".key-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: privateBlock, Bytes: der}), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// FormatPublic returns a public key as PEM.
func FormatPublic(key ed25519.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: publicBlock, Bytes: der}), nil
}

// ParsePublic reads a public key from PEM.
func ParsePublic(data []byte) (ed25519.PublicKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != publicBlock {
		return nil, errors.New("it is not a PEM file with a public key")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("it is not an ed25519 key")
	}
	return key, nil
}
