package temporal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// Bucket keeps blobs as objects of a server that speaks S3.
type Bucket struct {
	client *minio.Client
	bucket string
	prefix string
}

// transfer bounds the time for one blob, repeated tries included.
const transfer = 2 * time.Minute

// OpenBucket returns the bucket at a URL such as https://s3.example.com/BUCKET/PREFIX?region=eu-central-1, and checks that it is there. The prefix may be
// empty.
func OpenBucket(ctx context.Context, address string, c *credentials.Credentials) (*Bucket, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the address of the bucket: %w", err)
	}
	b := &Bucket{}
	var prefix string
	if b.bucket, prefix, _ = strings.Cut(strings.Trim(u.Path, "/"), "/"); b.bucket == "" || u.Host == "" {
		return nil, fmt.Errorf("%s names no bucket", address)
	}
	if prefix != "" {
		b.prefix = prefix + "/"
	}
	b.client, err = minio.New(u.Host, &minio.Options{Creds: c, Secure: u.Scheme == "https", Region: u.Query().Get("region"), BucketLookup: minio.BucketLookupPath})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found, err := b.client.BucketExists(ctx, b.bucket)
	if err == nil && !found {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", address, err)
	}
	return b, nil
}

// Read is part of Blobs, as all below.
func (b *Bucket) Read(digest string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), transfer)
	defer cancel()
	o, err := b.client.GetObject(ctx, b.bucket, b.prefix+digest, minio.GetObjectOptions{})
	if err != nil {
		return nil, err
	}
	defer o.Close()
	return io.ReadAll(o)
}

func (b *Bucket) Write(digest string, content []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), transfer)
	defer cancel()
	if info, err := b.client.StatObject(ctx, b.bucket, b.prefix+digest, minio.StatObjectOptions{}); err == nil && time.Since(info.LastModified) < fresh {
		return nil
	}
	_, err := b.client.PutObject(ctx, b.bucket, b.prefix+digest, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return err
}

func (b *Bucket) RemoveBefore(ctx context.Context, t time.Time) (removed int, err error) {
	ctx, cancel := context.WithCancel(ctx) // ends the listing
	defer cancel()
	for o := range b.client.ListObjects(ctx, b.bucket, minio.ListObjectsOptions{Prefix: b.prefix}) {
		if o.Err != nil {
			return removed, errors.Join(err, o.Err)
		}
		if !isDigest(strings.TrimPrefix(o.Key, b.prefix)) || !o.LastModified.Before(t) {
			continue
		}
		failed := b.client.RemoveObject(ctx, b.bucket, o.Key, minio.RemoveObjectOptions{})
		if err = errors.Join(err, failed); failed == nil {
			removed++
		}
	}
	return removed, err
}
