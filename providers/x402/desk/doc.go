// Package desk is payment.Desk: it joins the terms of payments, the facilitators that
// bring them onto a chain, and the nodes that say what became of them. A [Desk] is of
// one config; [Desk.Try] makes a payment with it for an operator who wants to know
// whether all of that works.
//
// What may not enter: credit, requests.
package desk
