package orisun_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cccgo/ccc/eventstore"
	"github.com/cccgo/ccc/eventstore/orisun"
	"github.com/cccgo/ccc/eventstore/orisun/orisuntest"
	"github.com/stretchr/testify/require"
)

// door passes connections on to a server, over TLS if it has a certificate.
type door struct {
	net.Listener
	mu   sync.Mutex
	open []net.Conn
	done sync.WaitGroup
}

func newDoor(t *testing.T, server *orisuntest.Server, cert *tls.Certificate) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if cert != nil {
		l = tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}})
	}
	d := &door{Listener: l}
	d.done.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server.Addr())
			if err != nil {
				_ = in.Close()
				continue
			}
			d.mu.Lock()
			d.open = append(d.open, in, out)
			d.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				d.done.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				})
			}
		}
	})
	t.Cleanup(d.shut)
	return d
}

// cut closes what is open.
func (d *door) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.open {
		_ = c.Close()
	}
	d.open = nil
}

func (d *door) shut() {
	_ = d.Close()
	d.cut()
	d.done.Wait()
}

// A password is checked once and then its token, until the server forgets it.
func TestTokens(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}, User: "u", Password: "p@ss"})
	store := open(t, strings.ReplaceAll(server.DSN("bank"), "p@ss", "p%40ss"))
	for range 20 {
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
	}
	require.Equal(t, 1, server.Logins())
	server.Forget() // counts as one
	for range 20 {
		require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
	}
	require.Equal(t, 3, server.Logins())
}

// With a certificate of an authority that ca names.
func TestTLS(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	web := httptest.NewTLSServer(nil) // for its certificate, of 127.0.0.1
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o600))
	safe := newDoor(t, server, &web.TLS.Certificates[0])

	store := open(t, "orisun://"+safe.Addr().String()+"/bank?ca="+ca)
	require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))

	config, err := orisun.ParseDSN("orisun://" + safe.Addr().String() + "/bank?timeout=200ms")
	require.NoError(t, err)
	config.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	_, err = config.Open(t.Context())
	require.ErrorContains(t, err, "certificate", "an authority that nobody knows")
	config, err = orisun.ParseDSN("orisun://" + server.Addr() + "/bank?timeout=200ms&ca=" + ca)
	require.NoError(t, err)
	_, err = config.Open(t.Context())
	require.ErrorContains(t, err, "tls", "a server without TLS")
}

// Of several nodes the first that answers serves, and the next one when it goes.
func TestSeveralNodes(t *testing.T) {
	server := start(t, orisuntest.Config{Boundaries: []string{"bank"}})
	dead, first, second := newDoor(t, server, nil), newDoor(t, server, nil), newDoor(t, server, nil)
	dead.shut()
	store := open(t, "orisun://"+dead.Addr().String()+","+first.Addr().String()+","+second.Addr().String()+"/bank")
	require.NoError(t, save(t.Context(), store, `{"accountId":"ada"}`))
	first.shut()
	require.Eventually(t, func() bool {
		_, err := store.Snapshot(t.Context(), eventstore.Part{Query: byAda})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
}
