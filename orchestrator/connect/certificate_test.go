package connect

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestCertificateIsRenewed: a server that runs shows the certificate that its files hold now. Files that do not fit each other, as
// in the middle of a renewal, do not count.
func TestCertificateIsRenewed(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	replace := func(path string, data []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", data, 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	firstCert, firstKey := makeCertificate(t, 1)
	secondCert, secondKey := makeCertificate(t, 2)
	replace(cert, firstCert)
	replace(key, firstKey)
	web, err := listenWeb(Options{HTTP: "127.0.0.1:0", TLSCert: cert, TLSKey: key})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- web.run() }()
	defer func() {
		if err := errors.Join(web.server.Close(), <-served); err != nil {
			t.Error(err)
		}
	}()
	expect := func(serial int64) {
		t.Helper()
		conn, err := tls.Dial("tcp", web.listener.Addr().String(), &tls.Config{InsecureSkipVerify: true}) // the serial number is looked at
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber; got.Int64() != serial {
			t.Errorf("the certificate has the serial number %d, want %d", got, serial)
		}
	}
	expect(1)
	replace(cert, secondCert)
	expect(1)
	replace(key, secondKey)
	expect(2)
	replace(key, []byte("nothing"))
	expect(2)
	replace(cert, firstCert)
	replace(key, firstKey)
	expect(1)
}

// TestHTTP2AfterRequestsInside: callers over TLS speak HTTP/2, whether or not requests of this process were served before.
func TestHTTP2AfterRequestsInside(t *testing.T) {
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certPEM, keyPEM := makeCertificate(t, 1)
	if err := errors.Join(os.WriteFile(cert, certPEM, 0o600), os.WriteFile(key, keyPEM, 0o600)); err != nil {
		t.Fatal(err)
	}
	server, err := listenWeb(Options{HTTP: "127.0.0.1:0", TLSCert: cert, TLSKey: key})
	if err != nil {
		t.Fatal(err)
	}
	server.server.Handler = http.NotFoundHandler()
	server.insider.Handler = server.server.Handler
	served := make(chan error, 2)
	get := func(transport *http.Transport, url, protocol string) {
		t.Helper()
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if answer.Body.Close(); answer.Proto != protocol {
			t.Errorf("%s answers with %s, want %s", url, answer.Proto, protocol)
		}
	}
	go func() { served <- server.runInside() }()
	get(&http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return server.inside.dialInside(ctx) }}, "http://inside", "HTTP/1.1")
	go func() { served <- server.run() }()
	get(&http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}, server.url, "HTTP/2.0")
	if err := errors.Join(server.shutDown(t.Context()), <-served, <-served); err != nil {
		t.Error(err)
	}
}

func makeCertificate(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	var certPEM, keyPEM bytes.Buffer
	if err := errors.Join(pem.Encode(&certPEM, &pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.Encode(&keyPEM, &pem.Block{Type: "PRIVATE KEY", Bytes: raw})); err != nil {
		t.Fatal(err)
	}
	return certPEM.Bytes(), keyPEM.Bytes()
}
