// Instead of the C library's, which would end the whole process: the host program is told.

#undef assert
#define assert(condition) ((condition) ? (void)0 : wd_assertion_failed(#condition, __FILE__, __LINE__))
