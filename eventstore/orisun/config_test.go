package orisun

import (
	"crypto/tls"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDSN(t *testing.T) {
	for dsn, want := range map[string]Config{
		"orisun://h:1/b":                     {Addresses: []string{"h:1"}, Boundary: "b"},
		"orisun://u:p%40%2F@h:1,[::1]:2/b_1": {Addresses: []string{"h:1", "[::1]:2"}, Boundary: "b_1", User: "u", Password: "p@/"},
		"orisun://u@h:1/b?plain=true&timeout=5s&poll=1s&eventTypeKey=__eventType": {Addresses: []string{"h:1"}, Boundary: "b", User: "u",
			Plain: true, Timeout: 5 * time.Second, Poll: time.Second, EventTypeKey: "__eventType"},
	} {
		got, err := ParseDSN(dsn)
		require.NoError(t, err, dsn)
		require.Equal(t, want, got, dsn)
	}
	bad := filepath.Join(t.TempDir(), "bad.pem")
	require.NoError(t, os.WriteFile(bad, []byte("no"), 0o600))
	for dsn, want := range map[string]string{
		"http://h:1/b":                   "does not begin with orisun://",
		"orisun:///b":                    "not HOST:PORT",
		"orisun://h/b":                   "not HOST:PORT",
		"orisun://h:1,/b":                "not HOST:PORT",
		"orisun://h:1":                   `boundary ""`,
		"orisun://h:1/1b":                `boundary "1b"`,
		"orisun://h:1/b-c":               `boundary "b-c"`,
		"orisun://u:a/b@h:1/b":           "percent-encoded",
		"orisun://h:1/b?plain=1":         "plain is true or false",
		"orisun://h:1/b?x=1":             `no parameter "x"`,
		"orisun://h:1/b?poll=1s&poll=2s": "stands twice",
		"orisun://h:1/b?poll=-1s":        "cannot be negative",
		"orisun://h:1/b?timeout=1":       "missing unit",
		"orisun://h:1/b?eventTypeKey=x":  `eventTypeKey "x"`,
		"orisun://h:1/b?ca=" + bad:       "holds no certificate",
		"orisun://h:1/b?ca=/none":        "no such file",
	} {
		_, err := ParseDSN(dsn)
		require.ErrorContains(t, err, want, dsn)
		require.ErrorContains(t, err, "orisun://USER:PASSWORD@HOST:PORT", dsn)
	}
}

// Plain text goes to loopback only, unless it is asked for.
func TestPlainText(t *testing.T) {
	for _, c := range []struct {
		config Config
		plain  bool
	}{
		{Config{Addresses: []string{"127.0.0.1:1"}}, true},
		{Config{Addresses: []string{"[::1]:1", "localhost:1"}}, true},
		{Config{Addresses: []string{"10.0.0.1:1"}}, false},
		{Config{Addresses: []string{"orisun:1"}}, false},
		{Config{Addresses: []string{"127.0.0.1:1", "orisun:1"}}, false},
		{Config{Addresses: []string{"localhost.example:1"}}, false},
		{Config{Addresses: []string{"orisun:1"}, Plain: true}, true},
		{Config{Addresses: []string{"127.0.0.1:1"}, TLS: &tls.Config{}}, false},
	} {
		require.Equal(t, c.plain, c.config.plain(), "%v", c.config)
	}
}

func TestExactNumbers(t *testing.T) {
	for data, exact := range map[string]bool{
		`{"a":0}`:                                true,
		`{"a":-0.10}`:                            true,
		`{"a":9007199254740992}`:                 true,
		`{"a":9007199254740993}`:                 false,
		`{"a":"9007199254740993"}`:               true,
		`{"a":[1,{"b":0.1}]}`:                    true,
		`{"a":[1,{"b":0.10000000000000000001}]}`: false,
		`{"a":1e400}`:                            false,
		`{"a":1e-400}`:                           false,
		`{"a":1.50e3}`:                           true,
		`{"a":100000000000000000000000}`:         true, // what float64 writes for it is the same number
		`{"a":0e99999999999999999999}`:           true,
	} {
		require.Equal(t, exact, exactNumbers([]byte(data)) == nil, data)
	}
}

func TestWithoutKey(t *testing.T) {
	for data, want := range map[string]string{
		`{"a":1}`:                               `{"a":1}`,
		`{"eventType":"T"}`:                     `{}`,
		`{"a":1,"eventType":"T"}`:               `{"a":1}`,
		`{"eventType":"T","z":1}`:               `{"z":1}`,
		`{"a":1, "eventType": "T", "z":1}`:      `{"a":1, "z":1}`,
		`{ "eventType": "T" , "z":1}`:           `{ "z":1}`,
		`{"a":{"eventType":"T"}}`:               `{"a":{"eventType":"T"}}`,
		`{"a":"eventType"}`:                     `{"a":"eventType"}`,
		`{"a":["eventType"],"eventType":"T"}`:   `{"a":["eventType"]}`,
		`{"eventType":"T","a":"b"}`:             `{"a":"b"}`,
		`{"a": "b", "eventType": "T", "c": 1}`:  `{"a": "b", "c": 1}`,
		`{"eventType": "T", "c": 1}`:            `{"c": 1}`,
		`{"a":"\"eventType\":\"b\""}`:           `{"a":"\"eventType\":\"b\""}`,
		`{"a":"b","eventType":"T\"\\"}`:         `{"a":"b"}`,
		`{"a":"eventType","eventType":{"b":1}}`: `{"a":"eventType"}`,
	} {
		got := withoutKey([]byte(data), oldTypeKey)
		require.True(t, json.Valid(got), "%s: %s", data, got)
		require.JSONEq(t, want, string(got), data)
	}
}
