package connect

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
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
