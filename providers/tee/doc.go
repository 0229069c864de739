// Package tee verifies the attestation of enclaves, and speaks to those that run chat
// models. A [Judge] makes a [Verification] of a report, which is relayed to clients beside
// the report itself, so that they can check our claim; quotes are checked in tdx, graphics
// processors in gpu, sealed texts in seal.
//
// A report is verified only when every check of the policy was made and holds. Each that
// does not is named. Values that decide anything are read from the quote, never from the
// text around it.
package tee
