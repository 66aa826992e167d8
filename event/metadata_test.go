package event

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMetadataRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.String())
		number := rapid.OneOf(rapid.Just(0), rapid.Int())
		m := Metadata{
			Command: text.Draw(t, "command"), Fingerprint: text.Draw(t, "fingerprint"), Correlation: text.Draw(t, "correlation"), Causation: text.Draw(t, "causation"),
			Events: number.Draw(t, "events"), Version: number.Draw(t, "version"), Depth: number.Draw(t, "depth"),
		}
		custom := rapid.MapOf(text.Filter(func(s string) bool { return !ReservedMetadata(s) }), text).Draw(t, "custom")
		if len(custom) > 0 {
			m.Custom = custom
		}
		data, err := json.Marshal(m)
		require.NoError(t, err)
		back := Metadata{Command: "old", Custom: map[string]string{"old": "x"}}
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, m, back)
	})
}

func TestMetadataOfOtherWriters(t *testing.T) {
	var m Metadata
	require.NoError(t, json.Unmarshal([]byte(` { "actor":"ada", "n": 9007199254740993 , "deep" : {"a": [1]}, "ccc.version":2, "ccc.later":true,"nothing":null}`), &m))
	require.Equal(t, Metadata{Version: 2, Custom: map[string]string{"actor": "ada", "n": "9007199254740993", "deep": `{"a": [1]}`, "ccc.later": "true", "nothing": "null"}}, m)
	require.ErrorContains(t, json.Unmarshal([]byte(`{"ccc.version":"two"}`), &m), `metadata key "ccc.version"`)
	require.Error(t, json.Unmarshal([]byte(`[]`), &m))

	_, err := json.Marshal(Metadata{Custom: map[string]string{"ccc.x": "y"}})
	require.ErrorContains(t, err, `metadata key "ccc.x": keys that begin with "ccc." are the framework's: use another`)
	data, err := json.Marshal(Metadata{Command: "open", Events: 1, Version: 1})
	require.NoError(t, err)
	require.JSONEq(t, `{"ccc.command":"open","ccc.events":1,"ccc.version":1}`, string(data))
}

// The quick way gives up or says what the other says.
func TestPlainMetadata(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{`"a"`, `"b c"`, `""`, `"ccc.command"`, `"ccc.version"`, `"ccc.x"`, `"\n"`, `"é"`, "\"\x80\"", "\"\n\"", `"`, "1", "0", "07", "-1", "1.5", "12345678901", "null", "{}"})
		var b strings.Builder
		b.WriteString(rapid.SampledFrom([]string{"{", "{", "{", " {", "[", ""}).Draw(t, "begin"))
		for i := range rapid.IntRange(0, 4).Draw(t, "n") {
			if i > 0 {
				b.WriteString(rapid.SampledFrom([]string{",", ",", ",", ", ", ""}).Draw(t, "between"))
			}
			b.WriteString(text.Draw(t, "key") + rapid.SampledFrom([]string{":", ":", ": ", ""}).Draw(t, "colon") + text.Draw(t, "value"))
		}
		b.WriteString(rapid.SampledFrom([]string{"}", "}", "}", "", "}}", ",}", "} "}).Draw(t, "end"))
		var quick, slow Metadata
		if quick.plain([]byte(b.String())) {
			require.NoError(t, slow.anyForm([]byte(b.String())), b.String())
			require.Equal(t, slow, quick, b.String())
		}
	})
	var m Metadata
	require.True(t, m.plain([]byte(`{"actor":"ada","ccc.command":"open","ccc.version":2}`)) && m.plain([]byte(`{"actor": "ada", "ccc.command": "open", "ccc.version": 2}`)))
	require.Equal(t, Metadata{Command: "open", Version: 2, Custom: map[string]string{"actor": "ada"}}, m)
}
