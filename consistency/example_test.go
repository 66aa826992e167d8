package consistency_test

import (
	"fmt"

	"github.com/cccgo/ccc/consistency"
)

func Example() {
	about := consistency.Where("courseId", "go").Or(consistency.Where("studentId", "bob"))
	enrolled := about.Type("Enrolled")
	fmt.Println(enrolled)
	fmt.Println(enrolled.Matches("Enrolled", []byte(`{"courseId":"go","studentId":"eve"}`)))
	fmt.Println(enrolled.Matches("Enrolled", []byte(`{"courseId":"rust","studentId":"eve"}`)))
	fmt.Println(enrolled.Matches("CourseOpened", []byte(`{"courseId":"go"}`)))
	// Output:
	// type "Enrolled" courseId="go" OR type "Enrolled" studentId="bob"
	// true
	// false
	// false
}

func ExampleQuery_And() {
	ada := consistency.Where("accountId", "ada")
	fmt.Println(ada.And(consistency.Where("currency", "EUR")))
	// Nothing has two values under one key. Stores refuse a query that can meet
	// nothing: it would observe nothing.
	fmt.Println(ada.And(consistency.Where("accountId", "bob")).Validate())
	// Output:
	// accountId="ada" currency="EUR"
	// consistency: query cannot be asked: it can match nothing: use Where, Type or All, and do not AND what excludes each other
}

func ExampleTags() {
	tags, err := consistency.Tags([]byte(`{"accountId":"ada","cents":"-30","count":3,"from":{"branch":"north"}}`))
	fmt.Println(tags, err)
	// Output: [{accountId ada} {cents -30}] <nil>
}

func ExamplePosition() {
	early, late := consistency.NewPosition(0, 9), consistency.NewPosition(0, 10)
	fmt.Println(late.After(early), early.String() < late.String(), early, late)
	again, err := consistency.ParsePosition("b10")
	fmt.Println(again == late, err)
	// Output:
	// true true a9 b10
	// true <nil>
}
