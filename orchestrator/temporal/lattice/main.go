// Command lattice is the ordinary command of that name, whose runs a Temporal server schedules if the settings name one.
package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"go.temporal.io/sdk/client"

	"github.com/spritekit/lattice/orchestrator/leader/drive"
	"github.com/spritekit/lattice/orchestrator/program"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/temporal"
)

func main() {
	env := program.NewEnv()
	env.OpenEngine = openEngine
	program.Main(env)
}

// openEngine connects to the server that the settings name.
func openEngine(ctx context.Context, env *setup.Env) (drive.Engine, error) {
	s := env.Settings.Engine
	o := temporal.Options{
		Address: s.Temporal, Namespace: cmp.Or(s.Namespace, "default"), Queue: cmp.Or(s.Queue, "lattice"), Log: env.Log,
	}
	var err error
	if o.Blobs, err = openBlobs(ctx, env); err != nil {
		return nil, err
	}
	if s.CA != "" || s.Cert != "" {
		o.Client.ConnectionOptions, err = readTLS(env.Expand(s.CA), env.Expand(s.Cert), env.Expand(s.Key))
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificates of [engine]: %w", err)
	}
	engine, err := temporal.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return engine, nil
}

// openBlobs returns the folder or the bucket of large values that the settings name. The credentials of a bucket are where the tools of AWS look for them.
func openBlobs(ctx context.Context, env *setup.Env) (temporal.Blobs, error) {
	address := env.Settings.Engine.Blobs
	if !strings.Contains(address, "://") {
		return temporal.Folder(cmp.Or(env.Expand(address), filepath.Join(env.Home, "blobs"))), nil
	}
	c := credentials.NewChainCredentials([]credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{}})
	bucket, err := temporal.OpenBucket(ctx, address, c)
	if err != nil {
		return nil, drive.NoBlobs(err)
	}
	return bucket, nil
}

// readTLS reads the PEM files of a server that speaks TLS.
func readTLS(ca, cert, key string) (client.ConnectionOptions, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return client.ConnectionOptions{}, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return client.ConnectionOptions{}, fmt.Errorf("%s has no certificate", ca)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return client.ConnectionOptions{}, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return client.ConnectionOptions{TLS: config}, nil
}
