package main

import (
	"testing"

	"github.com/cccgo/ccc/command/commandtest"
	"github.com/cccgo/ccc/event"
)

func TestOffer(t *testing.T) {
	commandtest.When(commandtest.Given(t), Offer{"go", 2}).Then(CourseOffered{"go", 2}).ThenState(Course{Seats: 2})
	commandtest.When(commandtest.Given(t, CourseOffered{"sql", 1}), Offer{"go", 2}).Then(CourseOffered{"go", 2})
	commandtest.When(commandtest.Given(t, CourseOffered{"go", 1}), Offer{"go", 2}).ThenRefused(Refused{CourseExists})
	commandtest.When(commandtest.Given(t, CourseOffered{"go", 1}), Offer{"go", 0}).ThenRefused(Refused{NoSeats})
}

func TestEnrol(t *testing.T) {
	facts := []event.Event{
		CourseOffered{"go", 3}, CourseOffered{"sql", 1}, CourseOffered{"art", 9}, CourseOffered{"law", 9},
		StudentEnrolled{"go", "ada"},
	}
	given := func(more ...event.Event) commandtest.Facts { return commandtest.Given(t, append(facts, more...)...) }

	commandtest.When(given(), Enrol{"go", "bob"}).Then(StudentEnrolled{"go", "bob"}).
		ThenState(Enrolment{Course: Course{Seats: 3, Taken: 2}, Student: Student{Enrolled: []string{"go"}}})
	commandtest.When(given(StudentEnrolled{"go", "eve"}), Enrol{"go", "bob"}).Then(StudentEnrolled{"go", "bob"}, CourseFilled{"go"})
	commandtest.When(given(), Enrol{"sql", "bob"}).Then(StudentEnrolled{"sql", "bob"}, CourseFilled{"sql"})

	full := []event.Event{StudentEnrolled{"sql", "eve"}, CourseFilled{"sql"}}
	commandtest.When(given(full...), Enrol{"sql", "bob"}).ThenRefused(Refused{CourseFull})
	open := append(full, WaitingListOpened{"sql"})
	commandtest.When(given(open...), Enrol{"sql", "bob"}).Then(StudentQueued{"sql", "bob", 1})
	queued := append(open, StudentQueued{"sql", "dee", 1}, StudentQueued{"sql", "cem", 2}, StudentQueued{"art", "cem", 7})
	commandtest.When(given(queued...), Enrol{"sql", "bob"}).Then(StudentQueued{"sql", "bob", 3})
	commandtest.When(given(queued...), Enrol{"sql", "cem"}).ThenRefused(Refused{AlreadyQueued})
	commandtest.When(given(queued...), Enrol{"sql", "eve"}).ThenRefused(Refused{AlreadyEnrolled})

	busy := []event.Event{StudentEnrolled{"art", "ada"}, StudentEnrolled{"law", "ada"}}
	commandtest.When(given(busy...), Enrol{"sql", "ada"}).ThenRefused(Refused{TooManyCourses})
	commandtest.When(given(busy...), Enrol{"go", "ada"}).ThenRefused(Refused{AlreadyEnrolled})
	commandtest.When(given(busy[1:]...), Enrol{"sql", "ada"}).Then(StudentEnrolled{"sql", "ada"}, CourseFilled{"sql"})
	commandtest.When(given(busy...), Enrol{"tea", "ada"}).ThenRefused(Refused{CourseNotFound})
}

func TestOpenWaitingList(t *testing.T) {
	facts := []event.Event{CourseOffered{"go", 1}}
	commandtest.When(commandtest.Given(t, facts...), OpenWaitingList{"go"}).ThenNothing()
	facts = append(facts, StudentEnrolled{"go", "ada"}, CourseFilled{"go"})
	commandtest.When(commandtest.Given(t, facts...), OpenWaitingList{"go"}).Then(WaitingListOpened{"go"})
	facts = append(facts, WaitingListOpened{"go"})
	commandtest.When(commandtest.Given(t, facts...), OpenWaitingList{"go"}).ThenNothing()
}
