package eventstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cccgo/ccc/consistency"
	"github.com/cccgo/ccc/event"
	"github.com/cccgo/ccc/eventstore"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

func record(data string) event.Record {
	return event.Record{ID: uuid.New(), Type: "T", Data: json.RawMessage(data)}
}

func records(n int) []event.Record {
	all := make([]event.Record, n)
	for i := range all {
		all[i] = record(`{}`)
	}
	return all
}

func sized(n int) event.Record {
	return record(`{"x":"` + strings.Repeat("x", n-len(`{"x":""}`)) + `"}`)
}

func withMetadata(m event.Metadata) []event.Record {
	r := record(`{}`)
	r.Metadata = m
	return []event.Record{r}
}

func observations(n int) []consistency.Observation {
	all := make([]consistency.Observation, n)
	for i := range all {
		all[i].Query = consistency.Where("k", fmt.Sprint(i))
	}
	return all
}

// Messages must name the thing and say what to do.
func TestCheckAppendRefuses(t *testing.T) {
	twice := record(`{}`)
	for _, c := range []struct {
		what    string
		records []event.Record
		seen    []consistency.Observation
		says    []string
	}{
		{"no event", nil, nil, []string{"at least one event"}},
		{"too many events", records(1001), nil, []string{"1001 events", "limit is 1000", "split"}},
		{"too many observations", records(1), observations(65), []string{"65 observations", "limit is 64", "OR"}},
		{"a bad query", records(1), make([]consistency.Observation, 1), []string{"observation", "match nothing"}},
		{"no event_id", []event.Record{{Type: "T", Data: json.RawMessage(`{}`)}}, nil, []string{"event 0", "event_id is missing"}},
		{"an event_id twice", []event.Record{record(`{}`), twice, twice}, nil, []string{"event 2", twice.ID.String(), "twice"}},
		{"an event_id twice among many", append(append(records(20), twice), twice), nil, []string{"event 21", twice.ID.String(), "twice"}},
		{"no type", []event.Record{{ID: uuid.New(), Data: json.RawMessage(`{}`)}}, nil, []string{"event type"}},
		{"a long type", []event.Record{{ID: uuid.New(), Type: strings.Repeat("x", 257), Data: json.RawMessage(`{}`)}}, nil, []string{"256 bytes"}},
		{"big data", []event.Record{sized(1<<20 + 1)}, nil, []string{"data of 1048577 bytes", "limit is 1048576", "reference"}},
		{"no JSON", []event.Record{record(`{`)}, nil, []string{"not JSON"}},
		{"a reserved key", []event.Record{record(`{"eventType":"x"}`)}, nil, []string{`"eventType"`, "reserved", "rename"}},
		{"big metadata", withMetadata(event.Metadata{Custom: map[string]string{"k": strings.Repeat("x", 1<<20)}}), nil, []string{"metadata of 1048577 bytes"}},
		{"reserved metadata", withMetadata(event.Metadata{Custom: map[string]string{"ccc.k": "v"}}), nil, []string{`"ccc.k"`, "rename"}},
		{"U+0000 in metadata", withMetadata(event.Metadata{Correlation: "a\x00"}), nil, []string{"U+0000"}},
		{"metadata that is no text", withMetadata(event.Metadata{Custom: map[string]string{"\xff": ""}}), nil, []string{"UTF-8"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			tags, err := eventstore.CheckAppend(c.records, c.seen)
			require.ErrorIs(t, err, eventstore.ErrInvalid)
			require.Equal(t, eventstore.Permanent, eventstore.KindOf(err))
			require.Nil(t, tags)
			for _, text := range c.says {
				require.ErrorContains(t, err, text)
			}
			require.Less(t, len(err.Error()), 600, "a message is no place for data")
		})
	}
}

func TestCheckAppendTakesWhatIsJustWithinTheLimits(t *testing.T) {
	_, err := eventstore.CheckAppend(records(eventstore.MaxEvents), observations(eventstore.MaxObservations))
	require.NoError(t, err)
	_, err = eventstore.CheckAppend([]event.Record{sized(eventstore.MaxEventBytes)}, nil)
	require.NoError(t, err)
	_, err = eventstore.CheckAppend(withMetadata(event.Metadata{Command: "c", Custom: map[string]string{"": strings.Repeat("x", 1<<20-1)}}), nil)
	require.NoError(t, err)
}

func TestCheckAppendSaysWhatToIndex(t *testing.T) {
	tags, err := eventstore.CheckAppend([]event.Record{
		record(`{"b":"2","n":1,"a":"1","commandId":"c","nested":{"x":"y"}}`), record(`{}`),
		record(`{"long":"` + strings.Repeat("x", 257) + `","k":"\u0031"}`),
	}, nil)
	require.NoError(t, err)
	require.Equal(t, []consistency.Tag{{Key: "b", Value: "2"}, {Key: "a", Value: "1"}, {Key: "commandId", Value: "c"}}, tags[0])
	require.Empty(t, tags[1])
	require.Equal(t, []consistency.Tag{{Key: "k", Value: "1"}}, tags[2])
}

func TestCheckParts(t *testing.T) {
	require.NoError(t, eventstore.CheckParts())
	require.NoError(t, eventstore.CheckParts(eventstore.Part{Query: consistency.All()}))
	err := eventstore.CheckParts(eventstore.Part{Query: consistency.All()}, eventstore.Part{})
	require.ErrorIs(t, err, eventstore.ErrInvalid)
	require.Equal(t, eventstore.Permanent, eventstore.KindOf(err))
}
