// Replaces the assert of the C library, which would abort the process: a failure is reported to the host program.

#undef assert
#define assert(condition) ((condition) ? (void)0 : wd_assertion_failed(#condition, __FILE__, __LINE__))
