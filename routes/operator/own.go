package operator

import (
	"context"
	"reflect"

	"farebox/billing"
)

// Self says who calls.
type Self struct {
	Name      string        `json:"name"`
	Role      billing.Right `json:"role"`
	From      string        `json:"from"`
	MaxCredit billing.Nano  `json:"max_credit"` // of a UTC day, for the role support
}

// nothing is the query of operations that have none.
type nothing struct{}

// own are the operations on this process.
func (d *Desk) own() []*row {
	document := newRow(of[nothing, object]("get_openapi", billing.MayList, "GET", "/openapi.json"), nil)
	document.raw = d.openAPI
	return []*row{
		document,
		newRow(of[nothing, Self]("get_self", billing.MayList, "GET", "/self"),
			func(_ context.Context, act billing.Act, _ []byte) (any, error) {
				return Self{act.By.Name, act.By.Role, act.By.From, act.By.MaxCredit}, nil
			}),
	}
}

// of describes an operation on this process.
func of[Q, A any](name string, right billing.Right, method, path string) billing.OperationInfo {
	return billing.OperationInfo{Name: name, Right: right, Method: method, Path: path, Query: reflect.TypeFor[Q](), Answer: reflect.TypeFor[A]()}
}
