// Package billing tests what requests cost: holds, charges, what hidden and
// unfinished answers cost, that no balance and no limit is passed (overspend), the
// daily allowance, and the reports in which customers read it all.
//
// That charges survive crashes and full disks is the subject of tests/ledger; what
// pictures and blockchain calls cost is checked with these.
package billing
